"""The command line: reads the words, calls the package, shows what comes back."""

from aucpr_dask.cli import demonstration, evaluation, importing, inspection
from aucpr_dask.cli.common import main

# In the order in which one meets them.
for command in (demonstration.demo, importing.import_group, inspection.info, evaluation.evaluate, evaluation.show):
    main.add_command(command)

__all__ = ["main"]

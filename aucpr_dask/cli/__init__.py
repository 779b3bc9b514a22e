"""The command line: reads the words, calls the package, shows what comes back."""

from aucpr_dask.cli import comparison, demonstration, evaluation, importing, inspection, studies
from aucpr_dask.cli.common import main

# In the order in which one meets them.
for command in (
    demonstration.demo,
    importing.import_group,
    inspection.info,
    evaluation.plan,
    evaluation.evaluate,
    evaluation.show,
    comparison.compare,
    comparison.rank,
    studies.study,
):
    main.add_command(command)

__all__ = ["main"]

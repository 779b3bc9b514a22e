"""The command line: parses arguments, calls the package and shows the answer."""

from aucpr_dask.cli import comparison, evaluation, importing, inspection
from aucpr_dask.cli.common import main

# In the order of the help.
for command in (
    evaluation.demo,
    importing.import_group,
    inspection.info,
    inspection.verify,
    evaluation.plan,
    evaluation.evaluate,
    evaluation.show,
    comparison.aggregate,
    comparison.compare,
    comparison.contrast,
    comparison.rank,
    comparison.power,
    inspection.table,
    inspection.audit,
    comparison.gate,
    inspection.export,
    inspection.report,
):
    main.add_command(command)

__all__ = ["main"]

"""The command line: parses arguments, calls the package and shows the answer."""

from aucpr_dask.cli import (
    aggregation,
    auditing,
    comparison,
    demonstration,
    evaluation,
    exporting,
    gating,
    importing,
    inspection,
    reporting,
    studies,
)
from aucpr_dask.cli.common import main

# In the order of the help.
for command in (
    demonstration.demo,
    importing.import_group,
    inspection.info,
    inspection.verify,
    evaluation.plan,
    evaluation.evaluate,
    evaluation.show,
    aggregation.aggregate,
    comparison.compare,
    comparison.rank,
    auditing.audit,
    gating.gate,
    exporting.export,
    reporting.report,
    studies.study,
):
    main.add_command(command)

__all__ = ["main"]

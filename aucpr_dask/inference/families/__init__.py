"""Families of comparisons: errors, p-values, adjustments, intervals, equivalence.

A *pair* is two positions on the model axis, in the index arrays `first` and `second`. Its difference is
``estimate[first] - estimate[second]``, and the replicates of its difference are those of the first model minus those
of the second. So replicates must be joint: all models share each resample.

Pairs are processed in panels of `panel_bytes`, at most four of them in memory at once. Results for a pair depend on
that pair alone, and maxima and counts are exact, so results are bit-for-bit identical for any size of the panels and
any order of pairs and models.
"""

from aucpr_dask.inference.families.adjustments import benjamini_hochberg as benjamini_hochberg
from aucpr_dask.inference.families.adjustments import holm as holm
from aucpr_dask.inference.families.adjustments import romano_wolf as romano_wolf
from aucpr_dask.inference.families.adjustments import single_step as single_step
from aucpr_dask.inference.families.bounds import half_widths as half_widths
from aucpr_dask.inference.families.bounds import intervals as intervals
from aucpr_dask.inference.families.bounds import marginal_quantiles as marginal_quantiles
from aucpr_dask.inference.families.bounds import max_t_quantile as max_t_quantile
from aucpr_dask.inference.families.bounds import order_statistic as order_statistic
from aucpr_dask.inference.families.equivalence import Equivalence as Equivalence
from aucpr_dask.inference.families.equivalence import equivalence as equivalence
from aucpr_dask.inference.families.equivalence import parametric_equivalence as parametric_equivalence
from aucpr_dask.inference.families.pairs import PANEL_BYTES as PANEL_BYTES
from aucpr_dask.inference.families.pairs import ROUND_OFF as ROUND_OFF
from aucpr_dask.inference.families.pairs import Floats as Floats
from aucpr_dask.inference.families.pairs import Indices as Indices
from aucpr_dask.inference.families.pairs import against as against
from aucpr_dask.inference.families.pairs import all_pairs as all_pairs
from aucpr_dask.inference.families.parametric import errors_from_covariance as errors_from_covariance
from aucpr_dask.inference.families.parametric import errors_from_units as errors_from_units
from aucpr_dask.inference.families.parametric import parametric_p_values as parametric_p_values
from aucpr_dask.inference.families.parametric import parametric_quantile as parametric_quantile
from aucpr_dask.inference.families.parametric import wilcoxon_p_values as wilcoxon_p_values
from aucpr_dask.inference.families.replicates import JointReplicates as JointReplicates
from aucpr_dask.inference.families.replicates import ResampledUnits as ResampledUnits
from aucpr_dask.inference.families.replicates import joint_replicates as joint_replicates
from aucpr_dask.inference.families.replicates import pairs_of_panel as pairs_of_panel
from aucpr_dask.inference.families.replicates import require_bootstrap as require_bootstrap
from aucpr_dask.inference.families.replicates import sign_flips as sign_flips
from aucpr_dask.inference.families.statistics import PairStatistics as PairStatistics
from aucpr_dask.inference.families.statistics import differences as differences
from aucpr_dask.inference.families.statistics import pair_statistics as pair_statistics
from aucpr_dask.inference.families.statistics import studentise as studentise

"""Which columns of a table are values: not means of others, ranks, counts, sizes, costs or text."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

MEAN, RANK, ABOUT, SPREAD = "a mean or total", "a rank", "about the model", "a spread or an error"
BOUND = "a bound of an interval, by its name and numbers"
MEANS = {"average", "averaged", "avg", "mean", "means", "overall", "total", "sum", "aggregate", "aggregated"}
RANKS = {"rank", "ranks", "position", "place"}
SPREADS = {"std", "stdev", "stddev", "stderr", "sem", "ci", "variance", "±"}
LOWS = {"low", "lower", "lo", "lb", "lcl", "min", "minimum"}
HIGHS = {"high", "higher", "upper", "hi", "ub", "ucl", "max", "maximum"}
SPLITS = {"train", "training", "val", "valid", "validation", "dev", "development", "test"}
TEST = "test"  # the split that counts if a table has several
COUNTED = {"num", "number", "n", "nr", "no", "#"}  # before what is counted
# The last word of a name: what a size, a cost or an identifier is given in or called.
ABOUT_THE_MODEL = {
    *("size", "param", "params", "parameters", "parameter", "tokens", "memory", "count"),
    *("dimension", "dimensions", "dim", "dims"),
    *("mb", "gb", "ram", "vram", "flops", "layers", "likes", "downloads", "votes", "followers", "billions"),
    *("fold", "fewshot", "epochs", "steps", "iterations", "bits"),
    *("cost", "costs", "price", "usd", "latency", "runtime", "seconds", "second", "sec", "ms"),
    *("throughput", "rtfx", "speed", "ttft", "tpot"),
    *("id", "ids", "identifier", "uuid", "hash", "sha", "revision", "commit", "version", "url", "link", "license"),
    *("date", "year", "years", "timestamp", "released", "time"),
}

# Measures, by a word of their names, or by several in turn.
LESS = {
    *("error", "errors", "mistakes", "failure", "failures", "misclassification", "loss", "regret", "deviance"),
    *("wer", "cer", "ter", "der", "mer", "eer", "hter", "acer", "apcer", "bpcer", "mindcf", "dcf", "cllr"),
    *("per", "frr", "far", "medr", "miss rate"),
    *("logloss", "crossentropy", "surprisal", "levenshtein", "wql"),
    *("nll", "perplexity", "ppl", "bpc", "bpb", "bits per", "cross entropy", "entropy", "aic", "bic"),
    *("rmse", "mse", "mae", "mape", "smape", "mase", "rmsle", "msle", "wape", "crps", "pinball", "rmsd", "nrmse"),
    *("abs rel", "bad pixel", "mpjpe", "ate", "epe", "emd", "hd", "assd", "brisque", "kl", "aurc", "metricx"),
    *("brier", "ece", "mce", "ace", "fpr", "fnr", "fdr", "false positive", "false negative", "false alarm"),
    *("fid", "kid", "fad", "fvd", "lpips", "mcd", "niqe", "distance", "divergence", "wasserstein", "chamfer"),
    *("hallucination", "hallucinations", "toxicity", "latency", "runtime", "seconds", "time", "vram", "duration"),
    *("ttft", "tpot", "time to", "tokens used", "steps", "iterations", "memory", "carbon"),
    *("cost", "costs", "price", "energy", "co2", "risk", "forgetting", "violations", "unfairness"),
    *("optimality gap", "generalization gap", "parity difference", "odds difference"),
}
"""Words in the names of measures of which less is better."""
MORE = {
    *("accuracy", "acc", "precision", "recall", "f1", "f2", "sensitivity", "specificity", "tpr", "tnr", "correct"),
    *("auc", "auroc", "roc", "rocauc", "aupr", "auprc", "aucpr", "ap", "map", "mrr", "rr"),
    *("ndcg", "dcg", "bpref", "rbp"),
    *("bleu", "sacrebleu", "rouge", "rougel", "meteor", "chrf", "bertscore", "comet", "em", "exact match", "success"),
    *("win rate", "winrate", "wins", "resolved", "solved", "pass", "passed", "reward", "elo", "rating", "hit", "hits"),
    *("spearman", "pearson", "kendall", "correlation", "mcc", "kappa", "iou", "miou", "dice", "jaccard"),
    *("psnr", "ssim", "r2", "r²", "ari", "nmi", "similarity", "likelihood", "bedroc"),
    *("c index", "cindex", "concordance", "qwk", "gini"),
}
"""Words in the names of measures of which more is better."""
ONLY_LAST = {
    *("time", "cost", "costs", "price", "energy", "distance", "duration", "seconds", "steps", "iterations", "memory"),
    *("far", "ace", "pass", "ap", "per", "ate", "hd", "risk", "carbon"),
}
"""Words that may mean another thing before others, as in "time series"."""
TURNS = {"no", "non", "not", "neg", "negative", "negated", "inverse", "anti", "reduction", "without", "minus"}
"""Words that may turn the direction of an error round."""
UNCLEAR = {"err", "asr"}
"""Words that stand for measures of both kinds: expected reciprocal rank, attack success rate."""
ATTACKS = {"attack", "attacks", "jailbreak", "jailbreaks"}
"""Words that may turn the direction of a success round."""

VARIANTS = {"norm", "micro", "macro", "weighted", "strict", "loose", "char", "token", "rate", "none", "score", "at"}
KINDS = {"log", "balanced", "absolute", "squared", "root", "pr", "ovr", "ovo", "cohen", "matthews", "top", "under"}
"""Words before the words of a measure: of which kind it is."""

_NAMES = LESS | MORE
_WAYS = {
    -1: "(?:↓|⬇|▼|\N{DOWNWARDS DOUBLE ARROW})\ufe0f?|\\\\downarrow"
    r"|\b(lower|less|smaller|fewer)[\W_]*(is[\W_]*)?better|\blib\b",
    1: "(?:↑|⬆|▲|\N{UPWARDS DOUBLE ARROW})\ufe0f?|\\\\uparrow"
    r"|\b(higher|more|larger|greater|bigger)[\W_]*(is[\W_]*)?better|\bhib\b",
}  # arrows and words that say which way is better

FAR = 20  # times: another scale
FEWEST_ROWS = 3  # by whose numbers a mean is recognised


def is_no_value(name: str) -> str | None:
    """Return what a column is by its name, if it is not one of values.

    >>> is_no_value("Macro Avg"), is_no_value("Embedding Dimensions"), is_no_value("Memory Usage (MB)")
    ('a mean or total', 'about the model', 'about the model')
    >>> is_no_value("Rank (Borda)"), is_no_value("n_tokens"), is_no_value("date_understanding")
    ('a rank', 'about the model', None)
    >>> is_no_value("95 % CI"), is_no_value("ci_low"), is_no_value("n"), is_no_value("MNLI")
    ('a spread or an error', 'a spread or an error', 'about the model', None)
    >>> is_no_value("std_test_score"), is_no_value("param_C")
    ('a spread or an error', 'about the model')
    """
    bare = re.sub(r"\(.*?\)|\[.*?\]", " ", name)
    # Of "MaxTokens" the last word tells; in the middle of one word, as in "NoMeanFeat", nothing does.
    parts, words = _words(re.sub(r"(?<=[a-z])(?=[A-Z])", " ", bare)), _words(name)
    if not words:
        return None
    ends = {*parts[:1], *parts[-1:]}
    if MEANS & {*words, *ends}:
        return MEAN
    if RANKS & ends or words == ["#"]:
        return RANK
    is_spread = re.search(r"standard[\W_]*(error|deviation)|std[\W_]*(err|dev)|^std(dev)?[\W_]", name.lower())
    if is_spread or SPREADS & {*parts[-1:], words[-1]} or ("ci" in parts and (LOWS | HIGHS) & {*parts}):
        return SPREAD
    is_count = (len(parts) > 1 and parts[0] in COUNTED and direction_of(name) is None) or words == ["n"]  # not nDCG
    tells = {
        *parts[-1:],
        words[-1],
        *({"cost", "price", "param", "params", "parameters", "latency", "throughput"} & ends),
    }
    return ABOUT if is_count or tells & ABOUT_THE_MODEL else None


def is_mean_of_rows(name: str, unit: str) -> bool:
    """Whether a row of this name is the mean of others, of models or of units: "Average", "Overall mean".

    >>> [is_mean_of_rows(name, "model") for name in ("Average", "Mean teacher")], is_mean_of_rows("Mean IoU", "task")
    ([True, False], True)
    """
    words = {*_words(name)}
    return bool(words) and (words <= MEANS or (unit in ("task", "data set") and is_no_value(name) in (MEAN, RANK)))


def direction_of(name: str) -> int | None:
    """Return 1 if more of what has this name is better, -1 if less is, 0 if it is not clear, None if nothing says it.

    >>> [direction_of(name) for name in ("AUROC ↑", "ECE ↓", "Score (lower is better)", "Flower")]
    [1, -1, -1, None]
    >>> [direction_of(name) for name in ("WER", "FPR95", "val_loss", "minDCF", "err", "neg_log_loss", "time series")]
    [-1, -1, -1, -1, 0, 0, None]
    >>> [direction_of(name) for name in ("nDCG@10", "toxicity_accuracy", "P@5", "negative log-likelihood")]
    [1, 1, 1, -1]
    >>> [direction_of(name) for name in ("logloss", "HD95", "PER", "miss_rate", "attack success rate")]
    [-1, -1, -1, -1, 0]
    """
    if (marked := direction_by_mark(name)) is not None:
        return marked
    text = re.sub(r"neg(ative)?[\W_]*log[\W_]*likelihood", "nll", name.lower())
    bare = re.sub(r"\(.*?\)|\[.*?\]", " ", text)
    for part in (bare, text):
        words = re.findall(r"[^\W\d_]+\d*", part)
        told = [way for at in range(len(words)) if (way := _direction(words, at)) is not None]
        if told:
            is_rest = re.match(r"\s*1\s*[-\N{MINUS SIGN}]", part) is not None
            is_turned = is_rest or TURNS & {*words} if told[-1] < 0 else ATTACKS & {*words}
            return 0 if is_turned else told[-1]
        if re.search(r"[^\W_]@\d", part):  # of retrieval, at a rank
            return 1
        if UNCLEAR & {*words}:
            return 0
    return None


def direction_by_mark(name: str) -> int | None:
    """Return the direction that an arrow or words for it give, if there is one: 0 for both."""
    found = [way for way, pattern in _WAYS.items() if re.search(pattern, name, re.IGNORECASE)]
    return sum(found) if found else None


def _direction(words: Sequence[str], at: int) -> int | None:
    """Return the direction that the word at a place, or the two from there, stand for."""
    is_last = at == len(words) - 1
    for text in (f"{words[at]} {words[at + 1]}" if not is_last else "", words[at], words[at].rstrip("0123456789")):
        if text and (is_last or text not in ONLY_LAST):
            for way, known in ((-1, LESS), (1, MORE)):
                if text in known:
                    return way
    return None


def by_metric(names: Sequence[str]) -> dict[str, tuple[str, str]]:
    """Return (task, metric) of each name, if a task comes with several metrics: ``acc_t0, f1_t0``; else nothing.

    Where every task has every metric, it is enough to know one of them.

    >>> by_metric(["llm_accuracy", "rag_accuracy", "llm_relevance", "rag_relevance"])["rag_relevance"]
    ('rag', 'relevance')
    """
    split = dict[str, tuple[str, str]]()  # of those of which a known metric stands first or last
    for name in names:
        parts = re.split(r"(\s-\s|[\s_/,:|.]+)", name.strip())
        cuts = [("".join(parts[: at - 1]), "".join(parts[at:])) for at in range(2, len(parts), 2)]
        ends = [(tail, head) for head, tail in cuts] + cuts[::-1]  # the longest name of a metric counts
        if known := next((end for end in ends if _is_metric_of(*end)), None):
            split[name] = known[1].strip(), known[0].strip()
    tasks = [task for task, _ in split.values()]
    if len({*tasks}) < len(tasks):
        return split
    for at in (1, 0) if split else ():  # the metric stands last, or first
        matches = {name: match for name in names if (match := re.fullmatch(_ENDS[at], name))}
        crossed = {name: (match[2 - at], match[1 + at]) for name, match in matches.items()}
        n_tasks, metrics = len({task for task, _ in crossed.values()}), {metric for _, metric in crossed.values()}
        is_whole = min(n_tasks, len(metrics)) > 1 and n_tasks * len(metrics) == len(names) == len(crossed)
        if is_whole and any(map(is_measure, metrics)):
            return crossed
    return {}


_ENDS = (r"([^\W_]+)[\W_]+(.+)", r"(.+)[\W_]+([^\W_]+)")


def is_measure(name: str) -> bool:
    """Return whether a name is that of a measure, and of nothing that it is measured on.

    >>> [is_measure(name) for name in ("F1-Score", "Accuracy (%)", "Recall@10", "ROC AUC", "Log Loss")]
    [True, True, True, True, True]
    >>> [is_measure(name) for name in ("Test accuracy", "macro", "MNLI")]
    [False, False, False]
    """
    words = re.findall(r"[^\W\d_]+\d*", name.lower())
    places = range(len(words))
    measures = {at for at in places if _direction(words, at) is not None}
    second = {at for at in places[1:] if f"{words[at - 1]} {words[at]}" in _NAMES}
    return bool(measures) and all(at in measures | second or words[at] in VARIANTS | KINDS for at in places)


def bounds_among(columns: Mapping[str, NDArray[np.float64]]) -> list[str]:
    """Return the columns that are bounds of intervals: two that differ in such a word, with a third between them.

    >>> of_means = {"mean": [0.5, 0.7], "lower": [0.4, 0.6], "upper": [0.6, 0.9], "other": [9.0, 9.0]}
    >>> bounds_among({name: np.array(values) for name, values in of_means.items()})
    ['lower', 'upper']
    """
    ends: dict[tuple[Any, ...], tuple[list[str], list[str]]] = {}  # lower and upper, by the rest of their names
    for name in columns:
        words = re.split(r"[\W_]+", name.lower())
        for at, word in enumerate(words):
            if word in LOWS | HIGHS:
                ends.setdefault((at, *words[:at], *words[at + 1 :]), ([], []))[word in HIGHS].append(name)
    found = []
    for low, high in (pair for lows, highs in ends.values() for pair in product(lows, highs)):
        lower, upper = columns[low], columns[high]
        whole = np.isfinite(lower) & np.isfinite(upper)
        others = (columns[name] for name in columns if name not in (low, high))
        if whole.any() and any(((lower <= one) & (one <= upper))[whole].all() for one in others):
            found += [low, high]
    return found


def of_other_splits(names: Sequence[str]) -> dict[str, str]:
    """Return the columns of training or validation that have a test column of the same name, and which it is.

    >>> of_other_splits(["train_acc", "val_acc", "test_acc", "dev set", "QNLI"])
    {'train_acc': 'test_acc', 'val_acc': 'test_acc'}
    """
    split = {name: re.split(r"([^\W_]+)", name.lower()) for name in names}
    stems = {name: tuple("*" if part in SPLITS else part for part in parts) for name, parts in split.items()}
    tests = {stems[name]: name for name in names if TEST in split[name]}
    return {name: tests[stems[name]] for name in names if stems[name] in tests and TEST not in split[name]}


def _is_metric_of(metric: str, task: str) -> bool:
    """Whether all words of a metric, but for such as "norm" in "acc_norm", belong to a measure, and a task is named."""
    words = re.findall(r"[^\W\d_]+\d*", metric.lower())
    ways = [_direction(words, i) for i in range(len(words))]
    are_its = [way is not None or word in VARIANTS for way, word in zip(ways, words, strict=True)]
    bare = re.sub("|".join(_WAYS.values()), "", task, flags=re.IGNORECASE)
    return bool(re.search(r"[^\W_]", bare)) and any(way is not None for way in ways) and all(are_its)


def _words(text: str) -> list[str]:
    return re.findall(r"[^\W\d_]+|[#±]", text.lower())


def no_values_by_number(columns: Mapping[str, NDArray[np.float64]]) -> dict[str, str]:
    """Return the columns that are the mean or the sum of the others, or on another scale; and which it is."""
    found, rest = dict[str, str](), dict(columns)
    table, units = _whole(rest)
    for name in columns:
        if len(rest) > 2 and (what := _made_of(table, units, list(rest).index(name))):
            found[name] = what
            del rest[name]
            table, units = _whole(rest)
    sizes = {name: float(np.abs(values[np.isfinite(values)]).max(initial=0.0)) for name, values in rest.items()}
    for name, size in sizes.items():
        largest = sorted((other for at, other in sizes.items() if at != name), reverse=True)
        if len(largest) > 1 and size > FAR * float(np.median(largest)) > 0:
            found[name] = f"values up to {size:,.6g}, where the others reach {np.median(largest):,.4g}"
    return found


def measure_of_mean(name: str, values: NDArray[np.float64], tasks: NDArray[np.float64]) -> str | None:
    """Return what a column that is a mean by its name says of tasks: the measure; "" if it is not of these tasks.

    None if its name says nothing, or that it is about the model. A mean, weighted or not, lies between the smallest and
    the largest value of each model, and rises with their mean.

    >>> tasks = np.array([[1.0, 2.0, 4.0], [3.0, 4.0, 5.0]])
    >>> of_errors, of_others = np.array([2.0, 3.0, 4.5]), np.array([4.5, 3.0, 2.0])
    >>> measure_of_mean("Average WER ↓", of_errors, tasks), measure_of_mean("Average WER ↓", of_others, tasks)
    ('WER', '')
    >>> measure_of_mean("Average", of_errors, tasks), measure_of_mean("Mean latency", of_errors, tasks)
    (None, None)
    """
    measure = re.sub(rf"\b({'|'.join(MEANS)})\b[\s.:]*|{'|'.join(_WAYS.values())}", "", name, flags=re.IGNORECASE)
    if direction_of(name) is None or is_no_value(name) != MEAN or is_no_value(measure) is not None:
        return None
    whole = np.isfinite(values) & np.isfinite(tasks).all(axis=0)
    values, tasks = values[whole], tasks[:, whole]
    mean = tasks.mean(axis=0)
    rises = float(np.sum((values - values.mean()) * (mean - mean.mean()))) if len(values) else -1.0
    is_between = bool(((tasks.min(axis=0) <= values) & (values <= tasks.max(axis=0))).all())
    return " ".join(measure.strip(" ()_-").split()) or "value" if is_between and rises >= 0 else ""


def _whole(columns: Mapping[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], list[float]]:
    """Return the rows without gaps of all columns, and of each column the last digit that its numbers have."""
    table = np.stack(list(columns.values())) if columns else np.empty((0, 0))
    table = table[:, np.isfinite(table).all(axis=0)]
    digits = (next((d for d in range(7) if np.array_equal(np.round(one, d), one)), 6) for one in table)
    return table, [10.0**-d for d in digits]


def _made_of(table: NDArray[np.float64], units: Sequence[float], at: int) -> str | None:
    """Return whether a column is the mean or the sum of the others, as far as rounding shows."""
    values, n_others = table[at], len(table) - 1
    if len(values) < FEWEST_ROWS:
        return None
    unit, total = max(units[at], min((*units[:at], *units[at + 1 :]))), table.sum(axis=0)
    least = 0.2**FEWEST_ROWS  # the chance, at most, that a column agrees which has nothing to do with the others
    for what, parts, reach in (("mean", n_others, unit), ("sum", 1, unit * n_others)):
        # A cheap bound first: with thousands of columns, comparing each with all the others would take seconds.
        if (np.abs(values - (total - values) / parts) > 1.001 * reach + 1e-9 * np.abs(total).max()).any():
            continue
        others = np.delete(table, at, axis=0)
        made = others.mean(axis=0) if what == "mean" else others.sum(axis=0)
        # Columns that hardly vary agree with anything; where even one of the others is as near, nothing is told.
        width = np.ptp(values)
        is_told = width > 0 and min(2 * reach / width, 1.0) ** len(values) <= least
        is_told &= np.abs(others - made).max(axis=1).min() > 2 * reach
        if is_told and bool((np.abs(values - made) <= reach).all()):
            return f"the {what} of the others"
    return None

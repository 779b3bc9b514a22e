# The same as ownership_process.py, for R's ROCR: its first number, then what a million scores cost it.
suppressPackageStartupMessages(library(ROCR))
arguments <- commandArgs(trailingOnly = TRUE)
area <- function(score, label) performance(prediction(score, label), "aucpr")@y.values[[1]]
say <- function(...) cat(sprintf("%.17g\n", c(...)), sep = "")
peak <- function() {
  status <- readLines("/proc/self/status")
  as.numeric(gsub("[^0-9]", "", status[startsWith(status, "VmHWM")])) * 1024
}

say(area(c(0.9, 0.8, 0.7, 0.1), c(1, 0, 1, 0)))
say(peak())
if (arguments[1] != "first") {
  small <- grepl(":small$", arguments[1])
  n_models <- if (small) 3 else 100
  n_items <- if (small) 400 else 100000
  set.seed(26)
  label <- as.integer(seq_len(n_items) %% 100 == 1)
  models <- lapply(seq_len(n_models), function(model) rnorm(n_items) + label)
  first <- area(models[[1]], label) # not counted
  before <- proc.time()
  spent <- 0
  n_calls <- 0
  shortest <- if (small) 0.01 else 0.5
  while (spent < shortest || (n_calls < n_models && spent < 5)) {
    area(models[[n_calls %% n_models + 1]], label)
    n_calls <- n_calls + 1
    spent <- sum((proc.time() - before)[c("user.self", "sys.self", "user.child", "sys.child")])
  }
  millions <- n_calls * n_items / 1e6
  say(first, spent / millions, (proc.time() - before)[["elapsed"]] / millions, peak())
}

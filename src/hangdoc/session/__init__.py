"""The only place where a loop, a file and a clock meet: find the target, look at it tick by tick, keep a case."""

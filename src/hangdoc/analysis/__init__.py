"""Pure judging: samples in, report out. No clock, no file, no process, no terminal: the same case gives the same report."""

"""The miniature server of `hangdoc demo`. Nothing else in hangdoc knows it: it is found and judged like a real one."""

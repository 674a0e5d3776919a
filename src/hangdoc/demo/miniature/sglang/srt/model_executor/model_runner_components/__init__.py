"""Part of the miniature; named as in the original so that its stacks read alike."""

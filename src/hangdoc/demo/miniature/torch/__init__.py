"""Not PyTorch: what the miniature needs of it. See the miniature package sglang beside it."""

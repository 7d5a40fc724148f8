"""What "cuda" means where there is none: torch.cuda answers like a machine with one GPU, tensors stay on the CPU."""

"""What frameworks that grew out of Megatron-LM share; none of them by itself."""

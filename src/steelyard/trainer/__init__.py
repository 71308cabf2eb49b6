"""The built-in PyTorch trainer; imports torch and numpy and nothing else of ours."""

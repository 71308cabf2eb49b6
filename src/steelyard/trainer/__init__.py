"""The built-in PyTorch trainer; imports only torch and numpy."""

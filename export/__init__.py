"""A trained model in forms that are served without this library: `keras-bert export`."""

"""One player on one link: the network rule, what it is worth, its fast twins, the environments."""

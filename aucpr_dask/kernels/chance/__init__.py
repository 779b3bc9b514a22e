"""Areas of random orders: how likely one is at least as large as an observed one."""

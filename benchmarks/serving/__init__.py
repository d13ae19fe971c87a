"""What the benchmarks of the server share: a server and a store to start and to kill, a client, fake agents."""

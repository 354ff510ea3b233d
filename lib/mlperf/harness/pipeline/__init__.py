"""From LoadGen's queries to its answers: queue, batcher, workers, completion."""

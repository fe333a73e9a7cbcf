DROP TABLE key_ring;

DROP TABLE store_state;

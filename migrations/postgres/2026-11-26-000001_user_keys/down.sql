DROP TABLE user_keys;

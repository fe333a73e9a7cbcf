DROP SEQUENCE write_numbers;
DROP TABLE store_state;
DROP TABLE doomed_objects;
DROP TABLE segments;
DROP TABLE files;
DROP TABLE nodes;

DROP TABLE server;

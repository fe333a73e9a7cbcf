//! The API over in-memory ports, without a socket.

mod conventions;
mod databases;
mod imports;
mod operations;
mod paging;
mod pulls;
mod refs;
mod sql;
mod world;

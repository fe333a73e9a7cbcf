//! The whole server, over real sockets.

mod commands;
mod crash;
mod main_job;
mod process;
mod readme;
mod real_data;

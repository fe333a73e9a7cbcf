//! Encryption of the objects in the store of databases.
#![doc = include_str!("../README.md")]

mod data_key_ring;
mod frames;
mod key_command;
mod key_object;
mod master_key;
mod opening_writer;
mod sealed_store;
mod sealing_reader;

pub use data_key_ring::{DataKeyRing, MasterKeys, Rewrapped};
pub use key_command::KeyCommand;
pub use master_key::{KeyError, MasterKey};
pub use sealed_store::SealedStore;

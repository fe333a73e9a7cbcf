//! A metadata store that cannot be reached, or is at fault.

use std::sync::Arc;

use branchyard_api_common::{AppState, ServerKeys};
use branchyard_domain::fakes::{OpenVault, PlainFormats, PlainPayloads};
use branchyard_domain::ports::{Metadata, MetadataError, Unit};
use branchyard_domain::usecases::Limits;
use branchyard_domain::{Hub, Ports};

use crate::world::World;

#[derive(Debug, Clone, Copy)]
pub(super) enum Fault {
    Broken,
    Unreachable,
}

impl Fault {
    fn error(self) -> MetadataError {
        match self {
            Self::Broken => MetadataError::Fault { context: "begin", source: "planned by a test".into() },
            Self::Unreachable => MetadataError::Unavailable("planned by a test".into()),
        }
    }
}

impl Metadata for Fault {
    fn read(&self) -> Result<Box<dyn Unit + '_>, MetadataError> {
        Err(self.error())
    }

    fn write(&self) -> Result<Box<dyn Unit + '_>, MetadataError> {
        Err(self.error())
    }
}

/// From now on the world's metadata fails.
pub(super) fn strike(world: &mut World, fault: Fault) {
    let fakes = &world.fakes;
    let ports = Ports {
        metadata: Arc::new(fault),
        engine: fakes.engine.clone(),
        blobs: fakes.blobs.clone(),
        formats: Arc::new(PlainFormats),
        clock: fakes.clock.clone(),
        ids: fakes.ids.clone(),
        payloads: Arc::new(PlainPayloads),
        vault: Arc::new(OpenVault),
        sender: fakes.sender.clone(),
    };
    let hub = Hub::new(ports, Limits::default());
    world.state = AppState::new(hub, world.state.config.clone(), ServerKeys::from_secret([7; 32]));
}

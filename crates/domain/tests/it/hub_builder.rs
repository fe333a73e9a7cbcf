//! Hubs that are built without some capabilities.

use branchyard_domain::Hub;
use branchyard_domain::access::{Admin, Write};
use branchyard_domain::entities::FileType;
use branchyard_domain::errors::{HookError, ImportError, ImportField};
use branchyard_domain::ports::AddressError;
use branchyard_domain::usecases::NewUpload;

use crate::harness::{DomainHarness, world};

/// Returns the same databases with a hub that has a metadata store and an engine, and nothing else.
fn bare() -> DomainHarness {
    let world = world();
    while !world.hub.dispatch().fan_out().unwrap().is_empty() {}
    let fakes = &world.fakes;
    let builder = Hub::builder(fakes.metadata.clone(), fakes.engine.clone());
    DomainHarness { hub: builder.build(fakes.clock.clone(), fakes.ids.clone()), ..world }
}

#[test]
fn a_store_and_an_engine_are_enough_for_branches_writes_and_pulls() {
    let world = bare();
    world.wrote("main", "INSERT INTO t VALUES (2,'two')");
    let queued = world.queue("main", "draft", "INSERT INTO t VALUES (3,'three')");
    world.work();
    assert!(world.outcome(queued.id).commit.is_some());
    world.open("draft");
    assert_eq!(world.rows("draft"), ["1|one", "2|two", "3|three"]);
    assert!(!world.hub.sends_webhooks());
    assert_eq!(world.hub.dispatch().fan_out().unwrap(), [], "no event waits for hooks that cannot exist");
    world.hub.operations().tidy().unwrap();
    world.hub.dispatch().tidy().unwrap();
}

#[test]
fn absent_capabilities_are_refused_with_a_reason() {
    let world = bare();
    let admin = world.access::<Admin>(&world.ada);
    let refused = world.hub.hooks().address(&admin, "https://hook.test/").unwrap_err();
    let HookError::Address(AddressError::Refused(text)) = refused else { panic!("{refused:?}") };
    assert_eq!(text, "this service does not send webhooks");

    for file_type in [FileType::Csv, FileType::Sql] {
        let wanted = NewUpload { content_length: 3, num_parts: 1, file_type };
        let refused = world.hub.imports().open_upload(&world.access::<Write>(&world.ada), wanted, None).unwrap_err();
        let ImportError::Fields(fields) = refused else { panic!("{refused:?}") };
        assert_eq!(fields, [(ImportField::FileType, "this server cannot read that format".to_owned())]);
    }
}

//! Limits of resources. The test lowers limits of the whole test program, to values that no test reaches.

use branchyard_confinement::{Resource, limit_resource};

#[test]
fn a_limit_holds_and_never_rises() {
    limit_resource(Resource::Core, 4096).unwrap();
    limit_resource(Resource::Core, 0).unwrap();
    limit_resource(Resource::Core, 4096).unwrap();
    let limit = rustix::process::getrlimit(Resource::Core);
    assert_eq!((limit.current, limit.maximum), (Some(0), Some(0)));
}

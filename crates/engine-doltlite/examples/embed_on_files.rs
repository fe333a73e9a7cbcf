//! Embeds Branchyard with the real engine in another program: no server, no async runtime. Metadata is kept in memory.
//!
//! Here the engine runs in the program itself, which is for SQL of trusted users. On Linux, `ProcessEngine` of
//! `branchyard-engine-process`, passed as the engine instead, runs it in confined worker processes.

use std::{error::Error, sync::Arc, time::Duration};

use branchyard_domain::access::{Caller, Participate, Write};
use branchyard_domain::entities::Visibility;
use branchyard_domain::ports::ReadQuery;
use branchyard_domain::usecases::{Limits, MergePull, NewBranch, NewDatabase, NewPull, NewUser, SqlWrite};
use branchyard_domain::values::{DatabaseName, OwnerName, RefName, Revision, Title};
use branchyard_domain::{Hub, Ports};
use branchyard_domain_testing::fakes::{
    Collected, FixedClock, MemoryBlobs, MemoryMetadata, OpenVault, PlainFormats, PlainPayloads, ScriptedSender,
    SeededIds,
};
use branchyard_engine_doltlite::{DoltliteEngine, EngineOptions};

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let engine = Arc::new(DoltliteEngine::open(folder.path().to_owned(), EngineOptions::default())?);
    let (metadata, blobs) = (Arc::new(MemoryMetadata::default()), Arc::new(MemoryBlobs::default()));
    let (clock, ids) = (Arc::new(FixedClock::default()), Arc::new(SeededIds::new(1)));
    let (payloads, vault, sender) = (Arc::new(PlainPayloads), Arc::new(OpenVault), Arc::new(ScriptedSender::default()));
    let formats = Arc::new(PlainFormats);
    let ports = Ports { metadata, engine, blobs, formats, clock, ids, payloads, vault, sender };
    let hub = Hub::new(ports, Limits::default());

    let (name, email) = (OwnerName::parse("ada")?, "ada@example.org".to_owned());
    let ada = hub.people().create_user(NewUser { name, email, display_name: None, password: None, is_admin: false })?;
    let (owner, name, visibility) = ("ada".to_owned(), DatabaseName::parse("engines")?, Visibility::Public);
    let new = NewDatabase { owner, name, visibility, description: None, default_branch: None };
    hub.databases().create(&ada, new, None)?;

    let caller = Caller::User(Arc::new(ada));
    let writer = hub.databases().access::<Write>(&caller, "ada", "engines")?;
    let draft = RefName::parse("draft")?;
    hub.branches().create(
        &writer,
        NewBranch { name: draft.clone(), from: Revision::Branch("main".to_owned()) },
        None,
    )?;

    let sql = "CREATE TABLE parts(id INTEGER PRIMARY KEY, name TEXT); INSERT INTO parts VALUES (1,'gear'),(2,'card')";
    let (from_branch, statements) = ("draft".to_owned(), sql.to_owned());
    let write = SqlWrite { from_branch, to_branch: draft, statements, message: None };
    hub.operations().sql_write(&writer, write, None)?;
    hub.operations().run_next("embed")?;

    let person = hub.databases().access::<Participate>(&caller, "ada", "engines")?;
    let here = ("ada".to_owned(), "engines".to_owned());
    let (from_branch, to_branch) = ("draft".to_owned(), "main".to_owned());
    let title = Title::parse("The first parts")?;
    let (from_database, to_database) = (here.clone(), here);
    let new = NewPull { title, description: None, from_database, from_branch, to_database, to_branch, publish: false };
    let pull = hub.pulls().open(&person, new, None)?;
    hub.pulls().merge(&writer, pull.number, MergePull::default(), None)?;
    hub.operations().run_next("embed")?;

    let mut rows = Collected::default();
    let head = hub.sql().resolve(&person, Some("main"))?;
    let query = ReadQuery::new("SELECT * FROM parts ORDER BY name", Duration::from_secs(5));
    hub.sql().read(&person, &head, &query, &mut rows)?;
    assert_eq!(rows.lines(), ["2|card", "1|gear"]);
    Ok(())
}

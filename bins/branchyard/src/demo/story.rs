//! The sample history of the demo, created through the same use cases as the APIs use.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use branchyard_domain::Hub;
use branchyard_domain::access::{Caller, DatabaseAccess, Level, Participate, Write};
use branchyard_domain::entities::{
    FileType, ImportMode, ImportOptions, Operation, OperationStatus, Outcome, User, Visibility,
};
use branchyard_domain::usecases::{
    CompletedPart, MergePull, NewDatabase, NewImport, NewPull, NewRelease, NewUpload, NewUser, SqlWrite,
};
use branchyard_domain::values::{DatabaseName, Description, LongText, OwnerName, RefName, Title};
use data_encoding::HEXLOWER;
use md5::{Digest as _, Md5};

use super::data::{DemoTable, TABLES};

/// Owner of the demo's database.
pub(super) const OWNER: &str = "demo";
/// Contributor that works on a fork.
const GUEST: &str = "guest";
/// Name of the demo's database.
pub(super) const DATABASE: &str = "atlas";

/// Creates the sample history. Called once per data folder.
pub(super) fn tell(hub: &Hub) -> anyhow::Result<()> {
    let owner = user(hub, OWNER, "Demo", "demo@branchyard.example")?;
    let guest = user(hub, GUEST, "Guest", "guest@branchyard.example")?;
    let teller = StoryWriter { hub };
    hub.databases().create(&owner, atlas()?, None)?;
    for table in &TABLES {
        teller.import(&owner, table)?;
    }
    teller.write(&owner, OWNER, "main", RELATIONS, "Add foreign keys between the tables")?;
    teller.tag_and_release(&owner)?;

    teller.write(&owner, OWNER, "views", VIEW, "Add a view of official languages")?;
    teller.open_pull(
        &owner,
        (OWNER, "views"),
        "Add a view of official languages",
        "Lists the official languages of every country, so that no query has to join the tables.",
    )?;
    teller.merge(&owner)?;

    teller.fork(&guest)?;
    teller.write(&guest, GUEST, "main", CENSUS, "Round the population of small territories")?;
    teller.open_pull(
        &guest,
        (GUEST, "main"),
        "Round small populations",
        "Estimates below 10,000 are not exact to the person, so they should not look as if they were.",
    )?;
    let access = teller.access::<Participate>(&owner, OWNER)?;
    let pull = branchyard_domain::values::PullNumber::new(2)?;
    hub.pulls().comment(
        &access,
        pull,
        LongText::parse("Good idea. Does the source say how precise they are?")?,
        None,
    )?;
    Ok(())
}

/// Adds foreign keys. Empty currencies become NULL.
const RELATIONS: &str = "
CREATE TABLE new_countries (
  code TEXT NOT NULL PRIMARY KEY, alpha3 TEXT NOT NULL UNIQUE, \"numeric\" TEXT NOT NULL, name TEXT NOT NULL,
  population INTEGER, gdp INTEGER, currency TEXT REFERENCES currencies (code));
INSERT INTO new_countries SELECT code, alpha3, \"numeric\", name, population, gdp, nullif(currency, '') FROM countries;
DROP TABLE countries;
ALTER TABLE new_countries RENAME TO countries;
CREATE INDEX countries_by_currency ON countries (currency);
CREATE INDEX languages_by_language ON languages_spoken (language);";

const VIEW: &str = "
CREATE VIEW official_languages AS
SELECT c.name AS country, l.language_name AS language, l.population_percent AS percent
FROM languages_spoken l JOIN countries c ON c.code = l.country
WHERE l.official_status IN ('official', 'de_facto_official');";

const CENSUS: &str = "UPDATE countries SET population = (population + 50) / 100 * 100 WHERE population < 10000;";

fn user(hub: &Hub, name: &str, display_name: &str, email: &str) -> anyhow::Result<User> {
    let wanted = NewUser {
        name: OwnerName::parse(name)?,
        email: email.to_owned(),
        display_name: Some(display_name.to_owned()),
        password: None,
        is_admin: false,
    };
    Ok(hub.people().create_user(wanted)?)
}

fn atlas() -> anyhow::Result<NewDatabase> {
    Ok(NewDatabase {
        owner: OWNER.to_owned(),
        name: DatabaseName::parse(DATABASE)?,
        visibility: Visibility::Public,
        description: Some(Description::parse(
            "Countries, their currencies and the languages spoken in them (Unicode CLDR)",
        )?),
        default_branch: None,
    })
}

struct StoryWriter<'a> {
    hub: &'a Hub,
}

impl StoryWriter<'_> {
    fn access<L: Level>(&self, user: &User, owner: &str) -> anyhow::Result<DatabaseAccess<L>> {
        let caller = Caller::User(std::sync::Arc::new(user.clone()));
        Ok(self.hub.databases().access(&caller, owner, DATABASE)?)
    }

    /// Waits until the server's workers have run an operation, for at most one minute.
    fn finish(&self, user: &User, operation: &Operation) -> anyhow::Result<Outcome> {
        let caller = Caller::User(std::sync::Arc::new(user.clone()));
        for _ in 0..6_000 {
            match self.hub.operations().get(&caller, operation.id)?.status {
                OperationStatus::Succeeded(outcome) => return Ok(outcome),
                OperationStatus::Failed(failure) => bail!("cannot load the demo data: {}", failure.detail),
                OperationStatus::Queued | OperationStatus::Running => std::thread::sleep(Duration::from_millis(10)),
            }
        }
        bail!("loading the demo data took more than a minute")
    }

    fn import(&self, user: &User, table: &DemoTable) -> anyhow::Result<()> {
        let access = self.access::<Write>(user, OWNER)?;
        let bytes = table.csv.as_bytes();
        let size = u64::try_from(bytes.len())?;
        let wanted = NewUpload { content_length: size, num_parts: 1, file_type: FileType::Csv };
        let session = self.hub.imports().open_upload(&access, wanted, None)?;
        let md5 = self.hub.imports().put_part(session.upload.id, 1, None, &mut &*bytes)?;
        let wanted = NewImport {
            secret: session.secret,
            upload: Some(session.upload.id),
            branch: "main".to_owned(),
            table: table.name.to_owned(),
            file_name: table.file.to_owned(),
            file_size: size,
            file_type: FileType::Csv,
            mode: ImportMode::Create,
            parts: vec![CompletedPart { number: 1, etag: HEXLOWER.encode(&md5) }],
            checksum: STANDARD.encode(Md5::digest(STANDARD.encode(md5))),
            primary_keys: table.key.iter().map(|key| (*key).to_owned()).collect(),
            message: None,
            pull_branch: None,
            column_map: BTreeMap::new(),
            options: ImportOptions::default(),
            file_columns: None,
        };
        let operation = self.hub.imports().start(&access, wanted, None)?;
        self.finish(user, &operation).map(drop)
    }

    fn write(&self, user: &User, owner: &str, branch: &str, statements: &str, message: &str) -> anyhow::Result<()> {
        let wanted = SqlWrite {
            from_branch: "main".to_owned(),
            to_branch: RefName::parse(branch)?,
            statements: statements.trim().to_owned(),
            message: Some(message.to_owned()),
            expected_head: None,
            start: None,
        };
        let operation = self.hub.operations().sql_write(&self.access::<Write>(user, owner)?, wanted, None)?;
        self.finish(user, &operation).map(drop)
    }

    fn tag_and_release(&self, user: &User) -> anyhow::Result<()> {
        let access = self.access::<Write>(user, OWNER)?;
        let wanted = NewRelease {
            tag: RefName::parse("v1")?,
            title: Title::parse("First edition")?,
            commit: self.hub.branches().get(&access, "main")?.head.into(),
            description: Some(LongText::parse("Three tables, 1,644 rows.")?),
            create_tag: true,
        };
        self.hub.releases().create(&access, wanted, None)?;
        Ok(())
    }

    fn open_pull(&self, user: &User, (owner, branch): (&str, &str), title: &str, text: &str) -> anyhow::Result<()> {
        let wanted = NewPull {
            title: Title::parse(title)?,
            description: Some(LongText::parse(text)?),
            from_database: (owner.to_owned(), DATABASE.to_owned()),
            from_branch: branch.to_owned(),
            to_database: (OWNER.to_owned(), DATABASE.to_owned()),
            to_branch: "main".to_owned(),
            publish: false,
        };
        self.hub.pulls().open(&self.access::<Participate>(user, OWNER)?, wanted, None)?;
        Ok(())
    }

    fn merge(&self, user: &User) -> anyhow::Result<()> {
        let access = self.access::<Write>(user, OWNER)?;
        let pull = branchyard_domain::values::PullNumber::FIRST;
        let operation = self.hub.pulls().merge(&access, pull, MergePull::default(), None)?;
        self.finish(user, &operation).map(drop).context("cannot merge pull request 1")
    }

    fn fork(&self, user: &User) -> anyhow::Result<()> {
        let access = self.access::<Participate>(user, OWNER)?;
        let operation = self.hub.operations().fork(&access, GUEST, None)?;
        self.finish(user, &operation).map(drop)
    }
}

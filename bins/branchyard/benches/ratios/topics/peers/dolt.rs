//! Dolt: `dolt sql-server`, MySQL's protocol. A write is an insert and a commit of the version, as here.

use std::path::Path;
use std::process::Command;

use super::mysql::MySql;
use super::{Peer, PeerStart, Session, values};
use crate::programs::{RunningProgram, free, output, version};
use crate::slices::millis;
use crate::table::Table;

const DATABASE: &str = "bench";

pub(super) fn start(program: &Path, table: Table) -> PeerStart {
    let dir = tempfile::tempdir().map_err(|error| error.to_string())?;
    let folder = dir.path().join(DATABASE);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let command = |arguments: &[&str]| {
        let mut command = Command::new(program);
        // Its settings are in the home folder.
        command.current_dir(&folder).env("HOME", dir.path()).args(arguments);
        command
    };
    for (key, value) in [("user.name", "bench"), ("user.email", "bench@example.test"), ("metrics.disabled", "true")] {
        output(&mut command(&["config", "--global", "--add", key, value]))?;
    }
    output(&mut command(&["init"]))?;
    let texts: String = (4..=table.columns).map(|number| format!(", text{number} text")).collect();
    let create = format!("create table t (id bigint primary key, name text, value double{texts})");
    output(&mut command(&["sql", "-q", &create]))?;
    std::fs::write(folder.join("t.csv"), table.csv()).map_err(|error| error.to_string())?;
    let mut loaded = Ok(String::new());
    let load_millis = millis(|| loaded = output(&mut command(&["table", "import", "-u", "t", "t.csv"])));
    loaded?;
    output(&mut command(&["add", "."]))?;
    output(&mut command(&["commit", "-m", "Load"]))?;
    let address = free();
    let port = address.port().to_string();
    let mut server = command(&["sql-server", "--host", "127.0.0.1", "--port", &port, "--loglevel", "error"]);
    let process = RunningProgram::start(&mut server, address)?;
    let open = move || {
        let connection = MySql::open(address, DATABASE).unwrap();
        Box::new(DoltSession { connection, table }) as Box<dyn Session>
    };
    Ok(Peer {
        about: format!("Dolt {}, sql-server, a commit for each write", version(program, "version")),
        load_millis,
        process: process.id(),
        open: Box::new(open),
        _held: Box::new((process, dir)),
    })
}

struct DoltSession {
    connection: MySql,
    table: Table,
}

impl Session for DoltSession {
    fn read(&mut self, id: u64) {
        let proof = format!("row number {id}");
        let found = self.connection.query(&format!("select * from t where id = {id}"), proof.as_bytes()).unwrap();
        assert!(found, "row {id} is missing");
    }

    fn write(&mut self, id: u64) {
        self.connection.query(&format!("insert into t values ({})", values(self.table, id)), b"").unwrap();
        loop {
            match self.connection.query("call dolt_commit('-a', '-m', 'Insert a row')", b"") {
                Ok(_) => return,
                // Another session has committed this row with its own.
                Err(error) if error.to_string().contains("nothing to commit") => return,
                // Another session has committed meanwhile.
                Err(error) if error.to_string().contains("not ancestor") => {}
                Err(error) => panic!("{error}"),
            }
        }
    }
}

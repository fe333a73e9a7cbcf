//! `/{owner}/{database}/tables/{table}/row`: one row with all of its cells.

use std::time::Duration;

use askama::Template;
use branchyard_domain::access::Read;
use branchyard_domain::errors::ReadError;
use branchyard_domain::ports::{Canceled, RowOrder, Selection};
use branchyard_domain::usecases::LookEnd;

use crate::database::{self, At, Frame, Tab};
use crate::error_page::Stop;
use crate::layout::Shell;
use crate::links::Links;
use crate::looking::Looking;
use crate::place::Place;
use crate::rows::{Cell, Grid};
use crate::visit::{Answer, Visit};

/// Characters of a cell; longer ones are downloaded.
const CELL_CHARACTERS: usize = 100_000;

struct Field {
    name: String,
    declared_type: String,
    is_key: bool,
    cell: Cell,
    link: Option<String>,
}

#[derive(Template)]
#[template(path = "row.html")]
struct RowPage {
    shell: Shell,
    frame: Frame,
    at: At,
    table: String,
    path: String,
    fields: Vec<Field>,
    referring: Vec<(String, String)>,
}

/// `GET /{owner}/{database}/tables/{table}/row?ref=…&column=…&test=…&value=…&sort=…&desc=1&page=…`: the first row that passes the
/// tests, or with `page` the one of that number or place.
pub(crate) async fn show(visit: Visit) -> Answer {
    let (access, frame) = database::open::<Read>(&visit, Tab::Tables).await?;
    let at = database::at(&visit, &access, &frame).await?;
    let (name, looking, commit) = (visit.segment("table"), Looking::of(&visit), at.commit.clone());
    let slot = visit.read_slot()?;
    let (state, timeout) = (visit.state.clone(), Duration::from_millis(visit.state.config.sql.default_timeout_ms));
    let (schemas, schema, grid, ended) = visit
        .run(&visit.state.sql, move |hub| -> Result<_, ReadError> {
            let _slot = slot;
            let schemas = hub.history().tables(&access, &commit)?;
            let schema = hub.browse().table(&access, &commit, &name)?;
            let place = Place::asked(&state, access.database().id, &schema, &looking, 1);
            let after = place.cells();
            let wanted = Selection {
                table: &schema.name,
                tests: &looking.tests,
                order: looking.sort.as_deref().map(|column| RowOrder { column, descending: looking.descending }),
                backwards: place.backwards,
                after: after.as_deref(),
                skip: place.skip,
                limit: 1,
                timeout,
                canceled: Canceled::default(),
            };
            let mut grid = Grid::cutting(CELL_CHARACTERS);
            let ended = hub.browse().rows(&access, &commit, &wanted, &mut grid)?;
            Ok((schemas, schema, grid, ended))
        })
        .await?;
    let (LookEnd::Done(_), Some(cells)) = (ended, grid.rows.into_iter().next()) else {
        return Err(Stop::nothing_here());
    };
    let links = Links::new(&frame, &schemas, &schema);
    let (targets, referring) = (links.targets(&cells), links.referring(&cells));
    let fields = schema.columns.iter().zip(cells).zip(targets).map(|((column, cell), link)| Field {
        name: column.name.clone(),
        declared_type: column.declared_type.clone(),
        is_key: column.in_primary_key,
        cell,
        link,
    });
    let (fields, path) = (fields.collect(), frame.table(&schema.name));
    visit.page(|shell| RowPage { shell, frame, at, table: schema.name, path, fields, referring })
}

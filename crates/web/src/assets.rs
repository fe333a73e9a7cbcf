//! The style sheet, the script and the icon. Their file names contain a content hash, so browsers can cache them forever.

use std::sync::LazyLock;

use actix_web::http::header;
use actix_web::{HttpResponse, web};
use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

use crate::error_page::PageError;

struct Asset {
    path: String,
    media_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(stem: &str, extension: &str, media_type: &'static str, text: &'static str) -> Self {
        let hash = HEXLOWER.encode(&Sha256::digest(text)[..8]);
        Self { path: format!("/static/{stem}.{hash}.{extension}"), media_type, text }
    }
}

/// All scripts in one file: they are small, and a page makes a single request for them.
const SCRIPTS: &str = concat!(
    include_str!("../assets/script.js"),
    include_str!("../assets/live.js"),
    include_str!("../assets/grid.js"),
    include_str!("../assets/cell_viewer.js"),
    include_str!("../assets/versions.js"),
    include_str!("../assets/upload.js"),
    include_str!("../assets/import.js"),
    include_str!("../assets/deployments.js")
);
const STYLES: &str = concat!(
    include_str!("../assets/style.css"),
    include_str!("../assets/grid.css"),
    include_str!("../assets/deployments.css"),
    include_str!("../assets/reference.css")
);

/// The script that edits tables: a module, which only the pages of tables load.
const EDITOR_SCRIPTS: &str = concat!(
    include_str!("../assets/table_editor/values.js"),
    include_str!("../assets/table_editor/pending_edits.js"),
    include_str!("../assets/table_editor/known_values.js"),
    include_str!("../assets/table_editor/rules.js"),
    include_str!("../assets/table_editor/elements.js"),
    include_str!("../assets/table_editor/cell_input.js"),
    include_str!("../assets/table_editor/edit_grid.js"),
    include_str!("../assets/table_editor/changes_view.js"),
    include_str!("../assets/table_editor/conflicts.js"),
    include_str!("../assets/table_editor/review.js"),
    include_str!("../assets/table_editor/start.js")
);

static STYLE: LazyLock<Asset> = LazyLock::new(|| Asset::new("style", "css", "text/css; charset=utf-8", STYLES));
static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("script", "js", "text/javascript; charset=utf-8", SCRIPTS));
static EDITOR_SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("table_editor", "js", "text/javascript; charset=utf-8", EDITOR_SCRIPTS));
static EDITOR_STYLE: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new(
        "table_editor",
        "css",
        "text/css; charset=utf-8",
        include_str!("../assets/table_editor/table_editor.css"),
    )
});
static ICON: LazyLock<Asset> =
    LazyLock::new(|| Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg")));

/// Returns the path of the style sheet.
pub fn style() -> &'static str {
    &STYLE.path
}

/// Returns the path of the script.
pub fn script() -> &'static str {
    &SCRIPT.path
}

/// Returns the path of the script that edits tables.
pub fn editor_script() -> &'static str {
    &EDITOR_SCRIPT.path
}

/// Returns the path of the style sheet of what edits tables.
pub fn editor_style() -> &'static str {
    &EDITOR_STYLE.path
}

/// Returns the path of the icon.
pub fn icon() -> &'static str {
    &ICON.path
}

/// `GET /static/{file}`
pub(crate) async fn get(file: web::Path<String>) -> Result<HttpResponse, PageError> {
    let wanted = format!("/static/{file}");
    let all = [&*STYLE, &*SCRIPT, &*EDITOR_SCRIPT, &*EDITOR_STYLE, &*ICON];
    let asset = all.into_iter().find(|asset| asset.path == wanted).ok_or_else(PageError::nothing_here)?;
    Ok(HttpResponse::Ok()
        .insert_header((header::CACHE_CONTROL, "public, max-age=31536000, immutable"))
        .content_type(asset.media_type)
        .body(asset.text))
}

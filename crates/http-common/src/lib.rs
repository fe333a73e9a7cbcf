//! Building blocks on actix-web that Branchyard's API adapters and pages share.
//!
//! The binary builds one [`AppState`] and passes a clone to every worker. An adapter's `configure` does the rest:
//!
//! ```ignore
//! let keys = ServerKeys::from_secret(secret); // 32 bytes, the same on every node
//! let config = HttpConfig::new("https://yard.example".to_owned()); // public fields, with defaults
//! let state = AppState::new(Services::new(hub, deployments), config, keys); // cheap to clone
//! HttpServer::new(move || {
//!     App::new().app_data(web::Data::new(state.clone())).configure(branchyard_api_v2::configure)
//! })
//! ```
//!
//! `configure` wraps [`layer`] (request ids, problem documents, CORS, cache headers) around the adapter's scope. To cover other
//! routes as well, wrap it around the whole `App`: `App::new().wrap(actix_web::middleware::from_fn(http_common::layer))`. Wrapping
//! twice has no further effect.
//!
//! A handler takes a [`RequestContext`], gets an access value from it, reads the body, runs one use case on a
//! [`Pool`](branchyard_executor::Pool) and returns an [`ApiResponse`]. An error is a [`HandlerError`], which the layer renders as a
//! problem document.

mod address;
mod answer_budget;
mod api_error;
mod api_response;
mod archive;
pub mod audit;
mod body;
mod body_clock;
mod caller;
mod cells;
mod coding;
mod collect;
mod conditional;
mod config;
mod csv;
mod csv_file;
mod download;
mod edit_fields;
mod export;
mod field_text;
mod fields;
mod file_pieces;
mod handler_error;
mod head;
mod history_key;
mod hosted_addresses;
mod idempotency;
mod json;
mod json_file;
mod key_cells;
mod key_parameter;
mod keys;
mod last_use;
mod layer;
mod live_streams;
mod made_files;
mod multipart;
mod object_schema;
mod origin;
mod paging;
mod parts;
pub mod personal_data;
mod query;
mod rate;
mod read_in_flight;
mod request_body;
mod request_context;
mod request_id;
mod request_log;
mod request_policy;
mod results;
mod routes;
mod row_key;
mod row_out;
mod served_document;
mod services;
mod sql_dump;
mod state;
mod time;
mod unknown_api;
mod upload;
mod urls;
mod validation_errors;
mod weighted_list;
mod words;
mod write_previews;

// Types of the executor that occur in public signatures of this crate.
pub use branchyard_executor::{BodyRoom, CallerKey, ConcurrencyLimiter, ConcurrencyPermit, PoolError};

pub use answer_budget::{InPieces, NoEffect, with_room};
pub use api_error::{ApiError, import_field_name, pointer_of};
pub use api_response::{ApiResponse, etag_of, to_json};
pub use archive::send_archive;
pub use body::{AnonymousBodies, ReadBody};
pub use body_clock::{BodyClock, TooSlow};
pub use caller::{CallerAddress, ReadsByPost, has_read_scope};
pub use cells::{cell_text, real, storage_class, write_integer, write_real};
pub use coding::{Coding, TaggedCoding, compress};
pub use collect::{CollectLimits, CollectedJsonRows, JsonRows, RowShape};
pub use conditional::{IfMatch, IfNoneMatch};
pub use config::{
    BodyTimeouts, ForwardedHeader, HttpConfig, PoolSizes, Proxies, QUEUED_READS_PER_CALLER, RateLimits, RemoteLimits,
    SqlLimits,
};
pub use csv::{csv_header, csv_row};
pub use csv_file::CsvFile;
pub use download::{Download, DownloadWriter, Ending, First, Waiting, download_channel};
pub use edit_fields::edit_fields;
pub use export::{Export, ExportFormat, disposition};
pub use field_text::{FieldText, HASH_PATTERN, NAME_PATTERN, NO_NUL_PATTERN, NOT_BLANK_PATTERN};
pub use fields::{Fields, read_open};
pub use file_pieces::file_pieces;
pub use handler_error::{HandlerError, HandlerResult};
pub use head::head_limit;
pub use history_key::{HistoryFound, HistoryKey, history_from};
pub use hosted_addresses::HostedAddresses;
pub use idempotency::ClaimedKey;
pub use json::Json;
pub use key_cells::KeyCells;
pub use key_parameter::{key_parameter, parse_key_parameter};
pub use keys::ServerKeys;
pub use layer::{KeepsConnection, OwnShape, STRICT_TRANSPORT_SECURITY, layer, rate_limited, uncounted};
pub use live_streams::{
    LIVE_STREAMS_PER_CALLER, LiveEnd, LiveEvent, LiveKey, LiveLoad, LiveStream, LiveStreams, LiveSubject,
};
pub use made_files::MadeFiles;
pub use multipart::{FormPart, Multipart, form_boundary};
pub use origin::RequestOrigin;
pub use paging::{Listed, Page, PageRequest, bound, cut, open_token, page, token};
pub use query::{Query, pairs};
pub use rate::{AddressLimit, FailedAttempts, Guesses};
pub use read_in_flight::ReadStart;
pub use request_body::{NO_FIELDS, RequestBody};
pub use request_context::{DatabasePath, RequestContext, SecretsShown, path_segment, sent_parameter, sent_parameters};
pub use request_id::RequestId;
pub use request_log::{EndedRequest, NO_ROUTE, RequestLog, RequestObserver, RoutePattern, log_request};
pub use request_policy::{BodyTypes, Credentials, RequestPolicy};
pub use results::Results;
pub use routes::{Endpoint, Errors, Route, get_route, mount, section};
pub use served_document::Served;
/// Constructors of [`Endpoint`], one per HTTP method. Each declares an endpoint for both the router and the OpenAPI document.
pub mod methods {
    pub use crate::routes::{delete, get, patch, post, put};
}
pub use row_key::{RowKey, changed_rows_from};
pub use row_out::{RowOut, write_base64, write_json_text, write_json_value};
pub use services::Services;
pub use state::{AppState, MAX_FORM_BYTES};
pub use time::{parse_http_seconds, rfc3339};
pub use unknown_api::unknown_api_paths;
pub use upload::{Pumped, UploadBody, UploadReader, upload_channel};
pub use urls::{Urls, segment};
pub use validation_errors::ValidationErrors;
pub use words::Words;
pub use write_previews::{preview_refusal, statement_failure};

//! The allow-lists for user statements. Everything that is not named here is refused, including what a later engine
//! adds; a test checks everything the engine has. All names are in lower case.

/// Functions that return the same result for the same arguments at the same commit.
const STEADY: &[&str] = &[
    "->",
    "->>",
    "abs",
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "avg",
    "bm25",
    "ceil",
    "ceiling",
    "char",
    "coalesce",
    "concat",
    "concat_ws",
    "cos",
    "cosh",
    "count",
    "cume_dist",
    "degrees",
    "dense_rank",
    "dolt_hashof",
    "dolt_hashof_catalog",
    "dolt_hashof_db",
    "dolt_hashof_index",
    "dolt_hashof_table",
    "dolt_merge_base",
    "dolt_version",
    "doltlite_engine",
    "exp",
    "first_value",
    "floor",
    "format",
    "fts5_get_locale",
    "fts5_insttoken",
    "fts5_locale",
    "glob",
    "group_concat",
    "hex",
    "highlight",
    "if",
    "ifnull",
    "iif",
    "instr",
    "json",
    "json_array",
    "json_array_insert",
    "json_array_length",
    "json_error_position",
    "json_extract",
    "json_group_array",
    "json_group_object",
    "json_insert",
    "json_object",
    "json_patch",
    "json_pretty",
    "json_quote",
    "json_remove",
    "json_replace",
    "json_set",
    "json_type",
    "json_valid",
    "jsonb",
    "jsonb_array",
    "jsonb_array_insert",
    "jsonb_extract",
    "jsonb_group_array",
    "jsonb_group_object",
    "jsonb_insert",
    "jsonb_object",
    "jsonb_patch",
    "jsonb_remove",
    "jsonb_replace",
    "jsonb_set",
    "lag",
    "last_value",
    "lead",
    "length",
    "like",
    "likelihood",
    "likely",
    "ln",
    "log",
    "log10",
    "log2",
    "lower",
    "ltrim",
    "match",
    "max",
    "median",
    "min",
    "mod",
    "nth_value",
    "ntile",
    "nullif",
    "octet_length",
    "percent_rank",
    "percentile",
    "percentile_cont",
    "percentile_disc",
    "pi",
    "pow",
    "power",
    "printf",
    "quote",
    "radians",
    "rank",
    "regexp",
    "replace",
    "round",
    "row_number",
    "rtreecheck",
    "rtreedepth",
    "rtreenode",
    "rtrim",
    "sign",
    "sin",
    "sinh",
    "soundex",
    "sqlite_source_id",
    "sqlite_version",
    "sqrt",
    "string_agg",
    "substr",
    "substring",
    "subtype",
    "sum",
    "tan",
    "tanh",
    "total",
    "trim",
    "trunc",
    "typeof",
    "unhex",
    "unicode",
    "unistr",
    "unistr_quote",
    "unlikely",
    "upper",
    "zeroblob",
];

/// Functions whose result may differ from run to run. Date and time functions are included because they accept the word
/// 'now'.
const VOLATILE: &[&str] = &[
    "changes",
    "current_date",
    "current_time",
    "current_timestamp",
    "date",
    "datetime",
    "julianday",
    "last_insert_rowid",
    "random",
    "randomblob",
    "strftime",
    "time",
    "timediff",
    "total_changes",
    "unixepoch",
];

/// Functions that the engine calls inside `ALTER TABLE`. The engine refuses every other call of them.
const INSIDE_ALTER: &[&str] = &[
    "sqlite_drop_column",
    "sqlite_rename_column",
    "sqlite_rename_quotefix",
    "sqlite_rename_table",
    "sqlite_rename_test",
];

/// The engine's tables that show its refs, or start at all refs rather than at the commit that is read.
const ELSEWHERE_TABLES: &[&str] = &["dolt_branches", "dolt_commit_ancestors", "dolt_tags"];

/// The engine's tables about the history of the commit that is read.
const HISTORY_TABLES: &[&str] = &[
    "dolt_diff",
    "dolt_diff_stat",
    "dolt_diff_summary",
    "dolt_docs",
    "dolt_log",
    "dolt_patch",
    "dolt_schema_diff",
    "dolt_schemas",
    "dolt_status",
];

/// Functions that take a commit, as a hash or as a path to an ancestor. A function that is added to the allow-lists
/// must be added here too if it takes a commit.
const FUNCTIONS_OF_COMMITS: &[&str] = &[
    "dolt_hashof",
    "dolt_hashof_catalog",
    "dolt_hashof_db",
    "dolt_hashof_index",
    "dolt_hashof_table",
    "dolt_merge_base",
];

/// The tables of [`HISTORY_TABLES`] that take a commit, as an argument or in a condition.
const TABLES_OF_COMMITS: &[&str] =
    &["dolt_diff", "dolt_diff_stat", "dolt_diff_summary", "dolt_log", "dolt_patch", "dolt_schema_diff"];

/// The prefixes of [`HISTORY_PREFIXES`] whose tables take a commit.
const PREFIXES_OF_COMMITS: &[&str] = &["dolt_at_", "dolt_diff_", "dolt_history_"];

/// Prefixes of the engine's tables about the history of one table. The name of that table follows.
const HISTORY_PREFIXES: &[&str] = &["dolt_at_", "dolt_blame_", "dolt_diff_", "dolt_history_"];

/// Modules that may be read, directly or through tables made with them.
const MODULES: &[&str] = &[
    "fts5",
    "json_each",
    "json_tree",
    "jsonb_each",
    "jsonb_tree",
    "pragma_foreign_key_list",
    "pragma_index_info",
    "pragma_index_list",
    "pragma_index_xinfo",
    "pragma_table_info",
    "pragma_table_list",
    "pragma_table_xinfo",
    "rtree",
    "rtree_i32",
];

/// Modules that `CREATE VIRTUAL TABLE` may use.
const CREATABLE: &[&str] = &["fts5", "rtree", "rtree_i32"];

/// SQLite's own tables that may be read.
const SYSTEM_TABLES: &[&str] = &["sqlite_master", "sqlite_schema", "sqlite_sequence", "sqlite_stat1", "sqlite_stat4"];

/// Pragmas about definitions. They take the name of a table or index.
const SCHEMA_PRAGMAS: &[&str] =
    &["foreign_key_list", "index_info", "index_list", "index_xinfo", "table_info", "table_list", "table_xinfo"];

/// Pragmas that may be read but not set.
const VALUE_PRAGMAS: &[&str] = &["data_version", "encoding", "user_version"];

/// Returns `true` if a table of the engine lists the columns of a view.
pub(super) fn shows_columns(name: &str) -> bool {
    ["pragma_table_info", "pragma_table_xinfo"].iter().any(|table| name.eq_ignore_ascii_case(table))
}

/// How the guard treats a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Function {
    Steady,
    Volatile,
    InsideAlter,
    /// Provided by the API. The engine's answer would be about the reserved branch.
    Elsewhere,
    Refused,
}

pub(super) fn function(name: &str) -> Function {
    if STEADY.contains(&name) {
        Function::Steady
    } else if VOLATILE.contains(&name) {
        Function::Volatile
    } else if INSIDE_ALTER.contains(&name) {
        Function::InsideAlter
    } else if name == "active_branch" {
        Function::Elsewhere
    } else {
        Function::Refused
    }
}

pub(super) fn function_takes_commits(name: &str) -> bool {
    FUNCTIONS_OF_COMMITS.contains(&name)
}

pub(super) fn table_takes_commits(name: &str) -> bool {
    is_fixed_table_of_commits(name) || PREFIXES_OF_COMMITS.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns the names of the single tables that take commits, as opposed to those that exist once per user table.
pub(super) fn fixed_tables_of_commits() -> &'static [&'static str] {
    TABLES_OF_COMMITS
}

/// Returns `true` if `name` is a single table of the engine that takes commits, and not one that exists once per user
/// table.
pub(super) fn is_fixed_table_of_commits(name: &str) -> bool {
    TABLES_OF_COMMITS.contains(&name)
}

/// How the guard treats a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TableAccess {
    /// A table of the user, or a module that shows definitions.
    Plain,
    History,
    /// One of SQLite's own tables.
    System,
    Elsewhere,
    Refused,
}

/// Classifies a table. `is_module` is set if the engine has a virtual table module of this name.
pub(super) fn table(name: &str, is_module: bool) -> TableAccess {
    if ELSEWHERE_TABLES.contains(&name) {
        TableAccess::Elsewhere
    } else if HISTORY_TABLES.contains(&name) || HISTORY_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) {
        TableAccess::History
    } else if name.starts_with("dolt_") {
        TableAccess::Refused
    } else if name.starts_with("sqlite_") {
        if SYSTEM_TABLES.contains(&name) { TableAccess::System } else { TableAccess::Refused }
    } else if MODULES.contains(&name) {
        TableAccess::Plain
    } else if is_module || name.starts_with("pragma_") {
        TableAccess::Refused
    } else {
        TableAccess::Plain
    }
}

pub(super) fn creatable(module: &str) -> bool {
    CREATABLE.contains(&module)
}

pub(super) fn pragma(name: &str, value: Option<&str>) -> bool {
    SCHEMA_PRAGMAS.contains(&name) || (value.is_none() && VALUE_PRAGMAS.contains(&name))
}

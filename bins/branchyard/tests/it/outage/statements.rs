//! Statements that compute, allocate, or nest as much as possible.

/// Expensive function calls. `{n}` is a number of up to some tens of millions.
pub(super) const FUNCTIONS: &[&str] = &[
    "select length(unhex(printf('%.*c', {n}, 'z'), printf('%.*c', {n}, 'a') || printf('%.*c', {n}, 'z')))",
    "select length(json_patch(o, o)) from (with recursive c(x) as (select 1 union all select x + 1 from c where x < {n} / 8) \
     select '{' || group_concat('\"k' || x || '\":1') || '}' o from c)",
    "select printf('%.*c', {n}, 'a') like '%' || printf('%.*c', 97, 'a') || 'b'",
    "select printf('%.*c', {n}, 'a') glob '*' || printf('%.*c', 97, 'a') || 'b'",
    "select length(replace(printf('%.*c', {n}, 'a'), printf('%.*c', {n} / 2, 'a') || 'b', 'c'))",
    "select length(replace(printf('%.*c', {n} / 4, 'a'), 'a', 'bcd'))",
    "select length(printf('%*d%*d', {n}, 1, {n}, 2))",
    "select length(printf('%.*f', {n}, 1.5))",
    "select length(hex(zeroblob({n} / 2)))",
    "select length(group_concat(hex(zeroblob({n} / 64)))) from docs, (select 1 union all select 2)",
    "select instr(printf('%.*c', {n}, 'a'), printf('%.*c', {n}, 'a') || 'b')",
    "select length(trim(printf('%.*c', {n}, 'a'), printf('%.*c', {n}, 'z') || 'a'))",
    "select length(json_group_array(x)) from (with recursive c(x) as (select 1 union all select x + 1 from c where x < {n}) select x from c)",
    "select json_valid(printf('%.*c', {n}, '['))",
    "select json_valid('[' || replace(printf('%.*c', {n} / 4, 'a'), 'a', '1,') || '1]')",
    "select count(*), sum(length(fullkey)) from json_tree('[' || replace(printf('%.*c', {n} / 4, 'a'), 'a', '1,') || '1]')",
    "select length(strftime(replace(printf('%.*c', {n} / 8, 'a'), 'a', '%Y'), '2020-01-01'))",
    "select length(quote(randomblob({n})))",
    "select length(unistr(replace(printf('%.*c', {n} / 8, 'a'), 'a', '\\u0061')))",
    "select count(*) from (with recursive c(x) as (select 1 union all select x + 1 from c where x < 200) \
     select soundex(printf('%.*c', {n}, 'a')) || x from c)",
    "select sum(length(substr(s, x))) from (select hex(zeroblob({n} / 8)) s), (select id x from t limit 500)",
];

pub(super) const ENDLESS: &[&str] = &[
    "with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from n where x % 7 like '%1%'",
    "select count(*) from t a, t b, t c where a.v || b.v = c.v",
    "select count(distinct a.id + b.id) from t a, t b, t c",
    "with recursive n(x) as (select 0 union select (x * 7 + 1) % 1000000007 from n) select max(x) from n",
    "select max(s) from (select sum(a.id) over (partition by b.id order by a.id) s from t a, t b)",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select unhex(hex(randomblob(1000000))) from n limit -1 offset 100000000",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select count(json_extract(doc, '$[#-1].v')) from n, docs",
    "explain query plan with recursive n(x) as (select 1 union all select x + 1 from n) select sum(x) from n",
];

pub(super) const MEMORY: &[&str] = &[
    "with recursive n(x) as (select 1 union all select x + 1 from n limit 200), \
     b as materialized (select randomblob(1000000) z from n) select count(*) from b x, b y, b w where x.z || y.z > w.z",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from (select randomblob(4000) z from n order by z)",
    "select length(group_concat(z)) from (select hex(zeroblob(30000000)) z from t limit 4)",
    "with recursive n(s) as (select 'a' union all select s || s from n) select max(length(s)) from n",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select count(*) from (select distinct x || hex(randomblob(100)) from n)",
    "select length(json_group_array(doc)) from docs, t",
    "select length(json_group_object(a.id || '-' || b.id, a.v)) from t a, t b",
    "with d as materialized (select json_group_array(a.id) j from t a, t b limit 1) select length(j) from d",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select length(group_concat(x || hex(zeroblob(500000)))) from n",
    "select hex(zeroblob(30000000)), hex(zeroblob(30000000)), hex(zeroblob(30000000)), hex(zeroblob(30000000))",
];

/// Statements with long results.
pub(super) const LONG: &[&str] = &[
    "with recursive n(x) as (select 1 union all select x + 1 from n) select x, hex(zeroblob(700)) from n",
    "with recursive n(x) as (select 1 union all select x + 1 from n) select hex(zeroblob(5000000)) from n",
    "select a.id, a.v, b.v from t a, t b",
    "select doc from docs, t",
];

pub(super) const HISTORY: &[&str] = &[
    "select count(*), max(v) from dolt_history_t",
    "select count(*) from dolt_diff_t",
    "select count(*) from dolt_history_t a, dolt_history_t b where a.v < b.v",
    "select count(*) from dolt_log a, dolt_log b, dolt_log c",
    "select * from dolt_diff_stat('HEAD~1', 'HEAD')",
    "select * from dolt_patch('HEAD~1', 'HEAD')",
    "select count(*) from dolt_blame_t",
    "select count(*) from dolt_diff_t('HEAD~1', 'HEAD')",
    "select count(*) from dolt_at_t('HEAD~1') a, dolt_at_t('HEAD~1') b where a.v > b.v",
];

pub(super) const WRITES: &[&str] = &[
    "create table if not exists e (x); insert into e with recursive n(x) as (select 1 union all select x + 1 from n) \
     select x from n where x < 0",
    "create table if not exists w (x); insert into w with recursive n(x) as (select 1 union all select x + 1 from n) \
     select hex(randomblob(500)) from n",
    "create table if not exists g (x, y as (x || x)); insert into g (x) with recursive n(x) as (select 1 union all select x + 1 from n) \
     select x from n",
    "drop table if exists i; create table i as with recursive n(x) as (select 1 union all select x + 1 from n limit 100000) \
     select hex(randomblob(20)) x from n; create index ix on i (x); delete from i where length(unhex(x, x)) < 0",
    "create table if not exists m (x); insert into m values (zeroblob(60000000)), (zeroblob(60000000)), (zeroblob(60000000))",
    "drop table if exists c; create table c (x check (like('%a%b%c%d%', x) or 1)); insert into c \
     select replace(printf('%.*c', 10000000, 'a'), 'b', x) from (with recursive n(x) as (select 1 union all select x + 1 from n) select x from n)",
];

/// Calls of JSON functions. `{doc}` is a document; `{paths}` and `{pairs}` fill the maximum number of arguments.
pub(super) const PATHS: &[&str] = &[
    "select length(json_extract({doc}, {paths}))",
    "select length(json_remove({doc}, {paths}))",
    "select length(json_set({doc}, {pairs}))",
    "select length(json_insert({doc}, {pairs}))",
    "select length(json_replace({doc}, {pairs}))",
    "select length(jsonb_set({doc}, {pairs}))",
];

/// Functions that build statements with the given depth or length.
pub(super) const NESTS: &[fn(usize) -> String] = &[
    |n| format!("select {}1{}", "(".repeat(n), ")".repeat(n)),
    |n| format!("select * from {}t{}", "(select * from ".repeat(n), ")".repeat(n)),
    |n| format!("select count(*) from {}t{}", "(".repeat(n.min(4000)), " join t)".repeat(n.min(4000))),
    |n| {
        let joined: Vec<String> = (0..n.min(64)).map(|k| format!("t a{k}")).collect();
        format!("select count(*) from {}", joined.join(", "))
    },
    |n| {
        let doubled: Vec<String> =
            (1..n.min(60)).map(|k| format!("a{k} as (select x.id from a{} x, a{} y)", k - 1, k - 1)).collect();
        format!("with a0 as (select id from t), {} select count(*) from a{}", doubled.join(", "), n.min(60) - 1)
    },
    |n| vec!["select 1"; n.min(500)].join(" union all "),
    |n| format!("select {}1", "1 + ".repeat(n)),
    |n| format!("select {}1", "not ".repeat(n)),
    |n| format!("select case {} end", "when id then id ".repeat(n)),
    |n| format!("select 1 where 1 in ({})", vec!["1"; n].join(",")),
    |n| format!("select * from t where {}", vec!["exists (select 1 from t where id = 1)"; n.min(2000)].join(" and ")),
    |n| format!("select {}", vec!["*"; n.min(2000)].join(",") + " from t"),
];

pub(super) fn filled(template: &str, n: usize) -> String {
    template.replace("{n}", &n.to_string())
}

/// Fills a template with 126 arguments and a document of about `bytes` bytes.
pub(super) fn paths(template: &str, bytes: usize) -> String {
    let doc = format!("'[' || replace(printf('%.*c', {}, 'a'), 'a', '1234567,') || '1]'", bytes / 8);
    let path = |n: usize| format!("'$[{}]'", bytes / 8 - n);
    let paths: Vec<String> = (1..=126).map(path).collect();
    let pairs: Vec<String> = (1..=63).map(|n| format!("{}, {n}", path(n))).collect();
    template.replace("{doc}", &doc).replace("{paths}", &paths.join(", ")).replace("{pairs}", &pairs.join(", "))
}

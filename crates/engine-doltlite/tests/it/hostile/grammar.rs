//! Statements drawn from a grammar of everything the engine knows, and sometimes damaged afterwards.

use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};

/// The words of statements besides those of the language.
pub(crate) struct Words {
    /// Names with their number of arguments.
    pub(crate) functions: Vec<(String, usize)>,
    pub(crate) modules: Vec<String>,
    pub(crate) pragmas: Vec<String>,
    /// Files outside the database, and network addresses.
    pub(crate) places: Vec<String>,
}

impl Words {
    /// Returns all words that the engine knows.
    pub(crate) fn of_the_engine(places: Vec<String>) -> Self {
        let plain = rusqlite::Connection::open_in_memory().unwrap();
        let names = |sql: &str| -> Vec<String> {
            let mut statement = plain.prepare(sql).unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        };
        let functions = names("select distinct name || ' ' || max(narg, 0) from pragma_function_list order by 1");
        let function =
            |text: &String| text.split_once(' ').map(|(name, count)| (name.to_owned(), count.parse().unwrap()));
        Self {
            functions: functions.iter().filter_map(function).collect(),
            modules: names("select name from pragma_module_list order by 1"),
            pragmas: names("select name from pragma_pragma_list order by 1"),
            places,
        }
    }
}

/// Functions that make a statement run, so that not all statements end at the first refused word.
const GOOD_FUNCTIONS: &[(&str, usize)] = &[
    ("abs", 1),
    ("lower", 1),
    ("hex", 1),
    ("quote", 1),
    ("typeof", 1),
    ("length", 1),
    ("substr", 3),
    ("replace", 3),
    ("instr", 2),
    ("printf", 2),
    ("trim", 2),
    ("like", 2),
    ("glob", 2),
    ("round", 2),
    ("char", 2),
    ("coalesce", 2),
    ("json", 1),
    ("json_object", 2),
    ("json_array", 3),
    ("json_set", 3),
    ("strftime", 2),
    ("count", 1),
    ("sum", 1),
    ("max", 1),
    ("group_concat", 2),
    ("json_group_array", 1),
    ("zeroblob", 1),
    ("randomblob", 1),
    ("unhex", 1),
    ("iif", 3),
    ("concat_ws", 3),
    ("dolt_hashof", 1),
];
const GOOD_TABLES: &[&str] = &["t", "t", "t", "main.t", "v1", "wide", "c", "dolt_log", "sqlite_schema"];
const GOOD_COLUMNS: &[&str] = &["id", "v", "id", "v", "1"];

const TABLES: &[&str] = &[
    "t",
    "wide",
    "main.t",
    "\"t\"",
    "[t]",
    "`wide`",
    "temp.t",
    "other.t",
    "nothing",
    "sqlite_master",
    "sqlite_schema",
    "sqlite_temp_master",
    "sqlite_sequence",
    "sqlite_stat1",
    "dolt_log",
    "dolt_diff_t",
    "dolt_history_t",
    "dolt_at_t",
    "dolt_branches",
    "dolt_nonlocal_tables",
    "dolt_workspace_t",
    "dolt_conflicts_t",
    "dolt_ignore",
    "dolt_docs",
    "v1",
    "x",
    "c",
];
const COLUMNS: &[&str] =
    &["id", "v", "a", "b", "rowid", "_rowid_", "oid", "*", "t.v", "x.*", "nothing", "\"id\"", "'id'", "sql", "name"];
const TYPES: &[&str] = &[
    "integer",
    "text",
    "blob",
    "real",
    "any",
    "int primary key",
    "text not null default (1)",
    "integer generated always as (1)",
];
const OPERATORS: &[&str] = &[
    "+",
    "-",
    "*",
    "/",
    "%",
    "||",
    "=",
    "<>",
    "<",
    "is",
    "is not",
    "and",
    "or",
    "like",
    "glob",
    "<<",
    "->",
    "->>",
    "collate nocase =",
];

pub(crate) struct Grammar<'a> {
    pub(crate) random: StdRng,
    words: &'a Words,
}

impl<'a> Grammar<'a> {
    pub(crate) fn new(seed: u64, words: &'a Words) -> Self {
        Self { random: StdRng::seed_from_u64(seed), words }
    }

    fn one<'b>(&mut self, of: &[&'b str]) -> &'b str {
        of.choose(&mut self.random).copied().unwrap_or_default()
    }

    fn chance(&mut self, of: u32) -> bool {
        self.random.random_ratio(1, of)
    }

    /// Returns one or several statements, possibly damaged.
    pub(crate) fn statement(&mut self) -> String {
        let mut text = self.whole(2);
        if self.chance(12) {
            let next = self.whole(1);
            text = format!("{text}{}{next}", self.one(&[";", "; ", ";;", ";\n--x\n", "; /* */ ", "\0;"]));
        }
        if self.chance(15) {
            let start = self.one(&[
                "explain ",
                "explain query plan ",
                "/* */",
                "-- \n",
                "\u{feff}",
                ";",
                " \t\n",
                "(",
                "with q as (select 1) ",
            ]);
            text.insert_str(0, start);
        }
        if self.chance(8) {
            self.damage(&mut text);
        }
        if self.chance(20) {
            text = if self.chance(2) { text.to_uppercase() } else { text.to_lowercase() };
        }
        text
    }

    fn whole(&mut self, depth: u32) -> String {
        match self.random.random_range(0..100) {
            0..45 => self.select(depth),
            45..50 => {
                let (table, column, value) = (self.table(depth), self.one(COLUMNS), self.value(depth));
                format!("update {table} set {column} = {value}{}", self.tail(depth))
            }
            50..55 => format!("insert into {} {}{}", self.table(0), self.rows(depth), self.tail(depth)),
            55..58 => format!("delete from {}{}", self.table(0), self.tail(depth)),
            58..60 => format!("replace into {} {}", self.table(0), self.rows(depth)),
            60..69 => self.define(depth),
            69..77 => self.pragma(),
            77..81 => {
                let place = self.place();
                let how = self.one(&["attach ", "attach database ", "ATTACH/**/", "detach "]);
                format!("{how}{place} as {}", self.one(&["x", "main", "temp", "other", "'y'"]))
            }
            81..84 => {
                let place = self.place();
                format!("vacuum{} {place}", self.one(&["", " main", " into", " main into", " temp into"]))
            }
            84..88 => {
                let how = self.one(&[
                    "begin",
                    "begin immediate",
                    "begin exclusive",
                    "commit",
                    "end",
                    "rollback",
                    "savepoint s",
                    "release s",
                    "rollback to s",
                ]);
                how.to_owned()
            }
            88..90 => {
                format!("{} {}", self.one(&["analyze", "reindex", "reindex nocase", "analyze main"]), self.one(TABLES))
            }
            90..94 => format!("with {} {}", self.common(depth), self.changing(depth)),
            94..96 => format!("values ({})", self.values(depth)),
            _ => {
                let name =
                    self.words.functions.choose(&mut self.random).map(|(name, _)| name.clone()).unwrap_or_default();
                format!("select {name}({})", self.commands())
            }
        }
    }

    fn column(&mut self) -> &'static str {
        if self.chance(8) { self.one(COLUMNS) } else { self.one(GOOD_COLUMNS) }
    }

    fn changing(&mut self, depth: u32) -> String {
        match self.random.random_range(0..4) {
            0 => format!("delete from {}{}", self.table(0), self.tail(depth)),
            1 => format!("insert into {} {}", self.table(0), self.rows(depth)),
            2 => format!("update {} set v = {}", self.table(0), self.value(depth)),
            _ => self.select(depth),
        }
    }

    fn common(&mut self, depth: u32) -> String {
        if self.chance(2) {
            let bound = self.one(&["", " limit 100", " where x < 50", " limit -1"]);
            format!("recursive c(x) as (select 1 union all select x + 1 from c{bound})")
        } else {
            format!("c(x) as ({})", self.select(depth.saturating_sub(1)))
        }
    }

    fn select(&mut self, depth: u32) -> String {
        let mut text = self.core(depth);
        while self.chance(10) {
            text += self.one(&[" union ", " union all ", " except ", " intersect "]);
            text += &self.core(depth.saturating_sub(1));
        }
        if self.chance(6) {
            text += &format!(" order by {}", self.one(&["1", "1 desc", "2", "random()", "v collate nocase"]));
        }
        if self.chance(6) {
            text +=
                &format!(" limit {}", self.one(&["1", "0", "-1", "10 offset 3", "(select 1)", "9223372036854775807"]));
        }
        if self.chance(12) {
            text = format!("with {} {text}", self.common(depth));
        }
        text
    }

    fn core(&mut self, depth: u32) -> String {
        let columns = match self.random.random_range(0..5) {
            0 => "*".to_owned(),
            count => (0..count.min(2)).map(|_| self.value(depth)).collect::<Vec<_>>().join(", "),
        };
        let mut text = format!("select {}{columns}", self.one(&["", "", "", "distinct ", "all "]));
        if columns == "*" || !self.chance(5) {
            text += &format!(" from {}", self.table(depth));
            while self.chance(5) {
                let joined =
                    self.one(&[", ", " join ", " left join ", " natural join ", " cross join ", " full join "]);
                text += &format!("{joined}{}", self.table(depth.saturating_sub(1)));
            }
            if self.chance(2) {
                text += &format!(" where {}", self.value(depth));
            }
            if self.chance(8) {
                text += &format!(" group by {} having {}", self.value(0), self.value(depth.saturating_sub(1)));
            }
        }
        text
    }

    /// Returns clauses that may follow a change.
    fn tail(&mut self, depth: u32) -> String {
        let mut text = String::new();
        if self.chance(2) {
            text += &format!(" where {}", self.value(depth));
        }
        if self.chance(8) {
            text += " returning *";
        }
        text
    }

    fn table(&mut self, depth: u32) -> String {
        let name = match self.random.random_range(0..16) {
            0..9 => self.one(GOOD_TABLES).to_owned(),
            9..11 => self.one(TABLES).to_owned(),
            11..13 => {
                let module = self.words.modules.choose(&mut self.random).cloned().unwrap_or_default();
                if self.chance(2) { module } else { format!("{module}({})", self.values(1)) }
            }
            13 => format!(
                "{}({})",
                self.one(&[
                    "json_each",
                    "json_tree",
                    "generate_series",
                    "dolt_diff",
                    "dolt_diff_stat",
                    "pragma_table_info"
                ]),
                self.values(1)
            ),
            _ if depth > 0 => format!("({})", self.select(depth - 1)),
            _ => "t".to_owned(),
        };
        if self.chance(8) { format!("{name} as {}", self.one(&["x", "t", "c"])) } else { name }
    }

    fn rows(&mut self, depth: u32) -> String {
        match self.random.random_range(0..3) {
            0 => "default values".to_owned(),
            1 => self.select(depth.saturating_sub(1)),
            _ => format!("values ({}), ({})", self.values(1), self.values(1)),
        }
    }

    fn values(&mut self, depth: u32) -> String {
        (0..self.random.random_range(0..4)).map(|_| self.value(depth)).collect::<Vec<_>>().join(", ")
    }

    fn value(&mut self, depth: u32) -> String {
        match self.random.random_range(0..if depth == 0 { 6 } else { 14 }) {
            0 | 1 => self.column().to_owned(),
            2 => self.random.random_range(-9i64..99).to_string(),
            3 => self
                .one(&[
                    "'x'",
                    "''",
                    "null",
                    "x'00ff'",
                    "1e308",
                    "9223372036854775807",
                    "-0.0",
                    "?",
                    ":a",
                    "'a' || 'b'",
                    "'{\"a\":[1]}'",
                    "\"x\"",
                ])
                .to_owned(),
            4 => self
                .one(&[
                    "current_time",
                    "true",
                    "changes()",
                    "random()",
                    "zeroblob(1000000000)",
                    "hex(zeroblob(900000))",
                ])
                .to_owned(),
            5 if !self.chance(4) => "'b'".to_owned(),
            5 => self.place(),
            6 | 7 => format!("({} {} {})", self.value(depth - 1), self.one(OPERATORS), self.value(depth - 1)),
            8 if self.chance(4) => format!("({})", self.select(depth - 1)),
            8 => format!("(select {} from {} limit 1)", self.value(depth - 1), self.table(depth - 1)),
            9 => format!("exists ({})", self.select(depth - 1)),
            10 => format!(
                "case when {} then {} else {} end",
                self.value(depth - 1),
                self.value(depth - 1),
                self.value(depth - 1)
            ),
            11 => format!(
                "cast({} as {})",
                self.value(depth - 1),
                self.one(&["integer", "text", "blob", "real", "x(1, 2)"])
            ),
            12 if self.chance(3) => {
                let over = self.one(&[
                    "",
                    "",
                    " over ()",
                    " over (partition by v order by id rows 3 preceding)",
                    " filter (where id > 1)",
                ]);
                format!("{}{over}", self.call(depth))
            }
            _ => self.call(depth),
        }
    }

    fn call(&mut self, depth: u32) -> String {
        let (name, arguments) = if self.chance(6) {
            self.words.functions.choose(&mut self.random).cloned().unwrap_or_default()
        } else {
            let (name, arguments) = GOOD_FUNCTIONS.choose(&mut self.random).copied().unwrap_or_default();
            (name.to_owned(), arguments)
        };
        let arguments = if self.chance(15) { self.random.random_range(0..5) } else { arguments };
        let arguments = (0..arguments).map(|_| self.value(depth - 1)).collect::<Vec<_>>();
        format!("{name}({})", arguments.join(", "))
    }

    fn place(&mut self) -> String {
        let place = self.words.places.choose(&mut self.random).cloned().unwrap_or_default();
        format!("'{place}'")
    }

    /// Returns arguments as version control commands take them.
    fn commands(&mut self) -> String {
        const FLAGS: &[&str] = &[
            "'-A'",
            "'-m'",
            "'x'",
            "'--hard'",
            "'-b'",
            "'work'",
            "'main'",
            "'HEAD'",
            "'--file-name'",
            "'add'",
            "'-f'",
            "'t'",
        ];
        let count = self.random.random_range(0..4);
        let argument =
            |grammar: &mut Self| if grammar.chance(4) { grammar.place() } else { grammar.one(FLAGS).to_owned() };
        (0..count).map(|_| argument(self)).collect::<Vec<_>>().join(", ")
    }

    fn pragma(&mut self) -> String {
        let name = self.words.pragmas.choose(&mut self.random).cloned().unwrap_or_default();
        let schema = self.one(&["", "", "main.", "temp.", "other."]);
        let value = match self.random.random_range(0..6) {
            0 => String::new(),
            1 => " = 1".to_owned(),
            2 => "(t)".to_owned(),
            3 => format!(" = {}", self.one(&["off", "delete", "memory", "'x'", "-1", "99999999", "wal", "normal"])),
            4 => format!("({})", self.place()),
            _ => format!(" = {}", self.place()),
        };
        format!("pragma {schema}{name}{value}")
    }

    fn define(&mut self, depth: u32) -> String {
        let name =
            self.one(&["x", "main.x", "temp.x", "t", "sqlite_x", "dolt_ignore", "dolt_nonlocal_tables", "\"\"", "v1"]);
        let some = self.one(&["", "temp ", "if not exists "]);
        match self.random.random_range(0..9) {
            0 => format!(
                "create {some}table {name}({} {}, b default ({}), check ({}))",
                self.one(COLUMNS),
                self.one(TYPES),
                self.value(depth),
                self.value(1)
            ),
            1 => format!("create {some}table {name} as {}", self.select(depth)),
            2 => format!("create {some}view {name} as {}", self.select(depth)),
            3 => {
                let when = self.one(&["after insert", "before delete", "instead of update", "after update of v"]);
                format!(
                    "create {some}trigger {name} {when} on {} begin {}; end",
                    self.one(TABLES),
                    self.changing(depth)
                )
            }
            4 => format!("create unique index {name} on t({}) where {}", self.value(1), self.value(1)),
            5 => {
                let module = self.words.modules.choose(&mut self.random).cloned().unwrap_or_default();
                format!("create virtual table {name} using {module}({})", self.values(1))
            }
            6 => format!(
                "drop {} {}{name}",
                self.one(&["table", "view", "index", "trigger"]),
                self.one(&["", "if exists "])
            ),
            7 => format!(
                "alter table {} {}",
                self.one(TABLES),
                self.one(&[
                    "rename to sqlite_x",
                    "rename to y",
                    "add column z default (random())",
                    "drop column v",
                    "rename column v to w"
                ])
            ),
            _ => {
                format!("create table {name}(a, foreign key (a) references {}(a) on delete cascade)", self.one(TABLES))
            }
        }
    }

    /// Removes a piece, doubles it, or replaces it by a meaningful word.
    fn damage(&mut self, text: &mut String) {
        let ends: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        let (Some(&from), Some(&to)) = (ends.choose(&mut self.random), ends.choose(&mut self.random)) else { return };
        let (from, to) = (from.min(to), from.max(to).min(from.min(to) + 40));
        let to = (from..=to).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(from);
        match self.random.random_range(0..4) {
            0 => drop(text.drain(from..to)),
            1 => {
                let piece = text[from..to].to_owned();
                text.insert_str(from, &piece);
            }
            2 => {
                let times = if self.chance(50) { 20_000 } else { 30 };
                let piece = self
                    .one(&["(", "not ", "-", "1+", "'", "select ", "/*", "\u{1F600}", " union all select 1", ",1"])
                    .repeat(times);
                text.insert_str(from, &piece);
            }
            _ => {
                let word = self.one(&[
                    "'", "\"", "`", "[", "--", "/*", "*/", ";", "\0", "(", ")", ",", ".", "dolt_", "sqlite_", "temp.",
                    "main.", "@", "é", "\u{a0}",
                ]);
                text.replace_range(from..to, word);
            }
        }
    }
}

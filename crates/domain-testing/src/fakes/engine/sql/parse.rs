//! The parser, which turns tokens into statements.

use super::super::table::{ColumnDef, Definition};
use branchyard_sqlite_lexer::{SqlToken, TokenKind};

use super::tokens::syntax;
use branchyard_domain::entities::{Cell, Trigger};
use branchyard_domain::ports::SqlFailure;

type Parsed<T> = Result<T, SqlFailure>;

/// First words of statements that are never allowed.
const NEVER: &[&str] =
    &["attach", "detach", "begin", "commit", "end", "rollback", "savepoint", "release", "pragma", "vacuum"];

/// `column = literal`.
pub(super) type Equals = (String, Cell);

#[derive(Debug)]
pub(super) enum Statement {
    Create(Definition),
    CreateTrigger { table: String, trigger: Trigger },
    DropTrigger { name: String },
    Insert { table: String, columns: Option<Vec<String>>, rows: Vec<Vec<Cell>> },
    Update { table: String, set: Vec<Equals>, wanted: Equals },
    Delete { table: String, wanted: Equals },
    Select(Select),
}

#[derive(Debug)]
pub(super) enum Shown {
    All,
    Count(String),
    Columns(Vec<String>),
}

#[derive(Debug)]
pub(super) struct Select {
    pub(super) shown: Shown,
    pub(super) table: String,
    pub(super) wanted: Option<Equals>,
    pub(super) order: Option<String>,
}

pub(super) fn statement(sql: &str, tokens: &[SqlToken<'_>]) -> Parsed<Statement> {
    let mut parser = Parser { sql, tokens, at: 0 };
    let first = tokens.first().map(|token| token.text).unwrap_or_default();
    let statement = match first.to_ascii_lowercase().as_str() {
        "create" if parser.is_trigger() => parser.create_trigger()?,
        "create" => parser.create()?,
        "drop" => parser.drop_trigger()?,
        "insert" => parser.insert()?,
        "update" => parser.update()?,
        "delete" => parser.delete()?,
        "select" => parser.select()?,
        word if NEVER.contains(&word) => return Err(SqlFailure::NotAllowed(first.to_owned())),
        _ => return Err(parser.wrong()),
    };
    match parser.peek() {
        None => Ok(statement),
        Some(_) => Err(parser.wrong()),
    }
}

struct Parser<'a> {
    sql: &'a str,
    tokens: &'a [SqlToken<'a>],
    at: usize,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a SqlToken<'a>> {
        self.tokens.get(self.at)
    }

    fn wrong(&self) -> SqlFailure {
        syntax(self.sql, self.peek())
    }

    /// Consumes the next token if it is this word or symbol.
    fn took(&mut self, text: &str) -> bool {
        let found = self.peek().is_some_and(|token| token.is(text));
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, texts: &[&str]) -> Parsed<()> {
        texts.iter().try_for_each(|text| if self.took(text) { Ok(()) } else { Err(self.wrong()) })
    }

    fn name(&mut self) -> Parsed<String> {
        let token = self.peek().ok_or_else(|| self.wrong())?;
        let name = match token.kind {
            TokenKind::Word | TokenKind::QuotedName => token.unquoted().into_owned(),
            _ => return Err(self.wrong()),
        };
        self.at += 1;
        Ok(name)
    }

    fn literal(&mut self) -> Parsed<Cell> {
        if self.took("null") {
            return Ok(Cell::Null);
        }
        let minus = if self.took("-") { "-" } else { "" };
        let token = self.peek().ok_or_else(|| self.wrong())?;
        let number = format!("{minus}{}", token.text);
        let cell = match token.kind {
            TokenKind::Text if minus.is_empty() => Some(Cell::Text(token.unquoted().into_owned().into_bytes())),
            TokenKind::Number if token.text.contains('.') => number.parse().ok().map(Cell::Real),
            TokenKind::Number => number.parse().ok().map(Cell::Integer),
            _ => None,
        };
        let cell = cell.ok_or_else(|| self.wrong())?;
        self.at += 1;
        Ok(cell)
    }

    fn equals(&mut self) -> Parsed<Equals> {
        let column = self.name()?;
        self.expect(&["="])?;
        Ok((column, self.literal()?))
    }

    /// Parses items separated by commas.
    fn several<T>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        let mut items = vec![item(self)?];
        while self.took(",") {
            items.push(item(self)?);
        }
        Ok(items)
    }

    fn bracketed<T>(&mut self, item: impl Fn(&mut Self) -> Parsed<T>) -> Parsed<Vec<T>> {
        self.expect(&["("])?;
        let items = self.several(item)?;
        self.expect(&[")"])?;
        Ok(items)
    }

    fn is_trigger(&self) -> bool {
        self.tokens.get(1).is_some_and(|token| token.is("trigger"))
    }

    /// Parses `CREATE TRIGGER name … ON table … END` and ignores everything in between.
    fn create_trigger(&mut self) -> Parsed<Statement> {
        self.expect(&["create", "trigger"])?;
        let name = self.name()?;
        while !self.took("on") {
            self.peek().ok_or_else(|| self.wrong())?;
            self.at += 1;
        }
        let table = self.name()?;
        let (Some(first), Some(last)) = (self.tokens.first(), self.tokens.last()) else { return Err(self.wrong()) };
        if !last.is("end") {
            return Err(self.wrong());
        }
        self.at = self.tokens.len();
        let create_statement = self.sql[first.start..last.end()].to_owned();
        Ok(Statement::CreateTrigger { table, trigger: Trigger { name, create_statement } })
    }

    fn drop_trigger(&mut self) -> Parsed<Statement> {
        self.expect(&["drop", "trigger"])?;
        Ok(Statement::DropTrigger { name: self.name()? })
    }

    fn create(&mut self) -> Parsed<Statement> {
        self.expect(&["create", "table"])?;
        let name_token = self.peek().map_or(self.sql.len(), |token| token.start);
        let name = self.name()?;
        let declared = self.bracketed(Self::column)?;
        let end = self.tokens.last().map_or(self.sql.len(), |token| token.end());
        let key = declared.iter().enumerate().filter(|(_, (_, is_key))| *is_key).map(|(at, _)| at).collect();
        Ok(Statement::Create(Definition {
            name,
            columns: declared.into_iter().map(|(column, _)| column).collect(),
            key,
            triggers: Vec::new(),
            create_statement: format!("CREATE TABLE {}", &self.sql[name_token..end]),
        }))
    }

    /// Parses a column. Returns `true` for a primary key column.
    fn column(&mut self) -> Parsed<(ColumnDef, bool)> {
        let mut column = ColumnDef { name: self.name()?, declared_type: String::new(), not_null: false };
        let mut is_key = false;
        loop {
            if self.took("primary") {
                self.expect(&["key"])?;
                is_key = true;
            } else if self.took("not") {
                self.expect(&["null"])?;
                column.not_null = true;
            } else {
                match self.peek().filter(|token| token.kind == TokenKind::Word) {
                    Some(word) if column.declared_type.is_empty() => word.text.clone_into(&mut column.declared_type),
                    _ => return Ok((column, is_key)),
                }
                self.at += 1;
            }
        }
    }

    fn insert(&mut self) -> Parsed<Statement> {
        self.expect(&["insert", "into"])?;
        let table = self.name()?;
        let columns = if self.took("values") {
            None
        } else {
            let columns = self.bracketed(Self::name)?;
            self.expect(&["values"])?;
            Some(columns)
        };
        let rows = self.several(|parser| parser.bracketed(Self::literal))?;
        Ok(Statement::Insert { table, columns, rows })
    }

    fn update(&mut self) -> Parsed<Statement> {
        self.expect(&["update"])?;
        let table = self.name()?;
        self.expect(&["set"])?;
        let set = self.several(Self::equals)?;
        self.expect(&["where"])?;
        Ok(Statement::Update { table, set, wanted: self.equals()? })
    }

    fn delete(&mut self) -> Parsed<Statement> {
        self.expect(&["delete", "from"])?;
        let table = self.name()?;
        self.expect(&["where"])?;
        Ok(Statement::Delete { table, wanted: self.equals()? })
    }

    fn select(&mut self) -> Parsed<Statement> {
        self.expect(&["select"])?;
        let shown = if self.took("*") {
            Shown::All
        } else {
            let start = self.peek().map_or(self.sql.len(), |token| token.start);
            let mut columns = self.several(Self::name)?;
            if self.took("(") {
                if columns.len() != 1 || !columns.remove(0).eq_ignore_ascii_case("count") {
                    return Err(self.wrong());
                }
                self.expect(&["*", ")"])?;
                let end = self.tokens.get(self.at.saturating_sub(1)).map_or(start, |token| token.end());
                Shown::Count(self.sql[start..end].to_owned())
            } else {
                Shown::Columns(columns)
            }
        };
        self.expect(&["from"])?;
        let table = self.name()?;
        let wanted = if self.took("where") { Some(self.equals()?) } else { None };
        let order = if self.took("order") {
            self.expect(&["by"])?;
            Some(self.name()?)
        } else {
            None
        };
        Ok(Statement::Select(Select { shown, table, wanted, order }))
    }
}

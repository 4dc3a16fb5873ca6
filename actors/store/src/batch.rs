//! Statements that need no result of one another.

use std::borrow::Cow;

use futures::TryStreamExt;
use sqlx::{
    Any, AnyConnection, AssertSqlSafe, Either, Executor,
    any::{AnyArguments, AnyRow},
    query::Query,
};

/// A value of a statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BatchValue {
    /// A text, or NULL.
    Text(Option<String>),
    /// A number, or NULL.
    Number(Option<i64>),
}

impl From<&str> for BatchValue {
    fn from(text: &str) -> Self {
        Self::Text(Some(text.to_owned()))
    }
}

impl From<String> for BatchValue {
    fn from(text: String) -> Self {
        Self::Text(Some(text))
    }
}

impl From<Option<String>> for BatchValue {
    fn from(text: Option<String>) -> Self {
        Self::Text(text)
    }
}

impl From<i64> for BatchValue {
    fn from(number: i64) -> Self {
        Self::Number(Some(number))
    }
}

impl From<Option<i64>> for BatchValue {
    fn from(number: Option<i64>) -> Self {
        Self::Number(number)
    }
}

/// Statements that run in order, and go to SQLite as one text: each text is a way to its thread and back, which takes longer than a
/// small statement itself. PostgreSQL takes no values with several statements and gets them one by one.
#[derive(Debug, Default)]
pub struct StatementBatch {
    statements: Vec<(Cow<'static, str>, Vec<BatchValue>)>,
}

impl StatementBatch {
    /// Adds a statement, whose values are `$1` and so on, and which is not to have a `$` elsewhere.
    pub fn add<const N: usize>(&mut self, sql: impl Into<Cow<'static, str>>, values: [BatchValue; N]) {
        self.add_all(sql, values.into());
    }

    /// Adds a statement with any number of values.
    pub fn add_all(&mut self, sql: impl Into<Cow<'static, str>>, values: Vec<BatchValue>) {
        self.statements.push((sql.into(), values));
    }

    /// The number of statements, and so that of the rows of those which are still to be added.
    pub fn len(&self) -> usize {
        self.statements.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.statements.is_empty()
    }

    /// Puts statements before the others. Only SQLite takes several in one text.
    pub(crate) fn add_first(&mut self, sql: &'static str, values: Vec<BatchValue>) {
        self.statements.insert(0, (sql.into(), values));
    }

    /// Runs the statements, of which none is left; returns the rows of each.
    ///
    /// # Errors
    /// The first error of the database. The statements before it have run.
    pub async fn run(&mut self, connection: &mut AnyConnection) -> Result<Vec<Vec<AnyRow>>, sqlx::Error> {
        let statements = std::mem::take(&mut self.statements);
        if connection.backend_name() == "SQLite" {
            run_as_one(statements, connection).await
        } else {
            run_one_by_one(statements, connection).await
        }
    }
}

async fn run_one_by_one(
    statements: Vec<(Cow<'static, str>, Vec<BatchValue>)>,
    connection: &mut AnyConnection,
) -> Result<Vec<Vec<AnyRow>>, sqlx::Error> {
    let mut rows = Vec::with_capacity(statements.len());
    for (sql, values) in statements {
        let query = values.into_iter().fold(sqlx::query(AssertSqlSafe(sql.into_owned())), bind);
        rows.push(query.fetch_all(&mut *connection).await?);
    }
    Ok(rows)
}

async fn run_as_one(
    statements: Vec<(Cow<'static, str>, Vec<BatchValue>)>,
    connection: &mut AnyConnection,
) -> Result<Vec<Vec<AnyRow>>, sqlx::Error> {
    if statements.is_empty() {
        return Ok(Vec::new());
    }
    let (sql, values) = joined(statements);
    let query = values.into_iter().fold(sqlx::query(AssertSqlSafe(sql)), bind);
    let mut results = connection.fetch_many(query);
    let (mut all, mut rows) = (Vec::new(), Vec::new());
    while let Some(result) = results.try_next().await? {
        match result {
            Either::Right(row) => rows.push(row),
            Either::Left(_) => all.push(std::mem::take(&mut rows)),
        }
    }
    Ok(all)
}

fn bind(query: Query<'_, Any, AnyArguments>, value: BatchValue) -> Query<'_, Any, AnyArguments> {
    match value {
        BatchValue::Text(text) => query.bind(text),
        BatchValue::Number(number) => query.bind(number),
    }
}

/// One text of several statements, whose values are numbered through.
fn joined(statements: Vec<(Cow<'static, str>, Vec<BatchValue>)>) -> (String, Vec<BatchValue>) {
    let (mut text, mut all) = (String::new(), Vec::new());
    for (sql, values) in statements {
        let mut parts = sql.split('$');
        text.push_str(parts.next().unwrap_or_default());
        for part in parts {
            let digits = part.find(|c: char| !c.is_ascii_digit()).unwrap_or(part.len());
            let number: usize = part[..digits].parse().unwrap_or_default();
            text.push_str(&format!("${}{}", all.len() + number, &part[digits..]));
        }
        text.push_str("; ");
        all.extend(values);
    }
    (text, all)
}

#[cfg(test)]
mod tests {
    use sqlx::Row;

    use super::*;
    use svc_test_support::postgres_server::PostgresServer;

    async fn check(url: &str) {
        sqlx::any::install_default_drivers();
        let mut connection = <AnyConnection as sqlx::Connection>::connect(url).await.expect("a database");
        sqlx::raw_sql("CREATE TABLE note (id BIGINT PRIMARY KEY, text TEXT, size BIGINT)")
            .execute(&mut connection)
            .await
            .expect("a table");
        let mut batch = StatementBatch::default();
        assert!(batch.run(&mut connection).await.expect("nothing to do").is_empty());
        for number in 1..=12 {
            let sql = "INSERT INTO note (id, text, size) VALUES ($1, $2, $3)";
            batch.add(sql, [number.into(), format!("note {number}").into(), None::<i64>.into()]);
        }
        let sql = "UPDATE note SET size = $2, text = COALESCE($3, text) WHERE id = $1 OR size = $2 RETURNING id";
        batch.add(sql, [11.into(), 7.into(), None::<String>.into()]);
        batch.add("SELECT id FROM note WHERE id > $1 AND size IS NULL ORDER BY id", [9.into()]);
        batch.add("DELETE FROM note WHERE id < $1", [12.into()]);
        batch.add("SELECT text FROM note", []);
        let rows = batch.run(&mut connection).await.expect("they run");
        let counts: Vec<usize> = rows.iter().map(Vec::len).collect();
        assert_eq!(counts, [vec![0; 12], vec![1, 2, 0, 1]].concat());
        assert_eq!(rows[12][0].get::<i64, _>(0), 11);
        assert_eq!((rows[13][0].get::<i64, _>(0), rows[13][1].get::<i64, _>(0)), (10, 12));
        assert_eq!(rows[15][0].get::<String, _>(0), "note 12");
        // The second statement fails: the third does not run.
        let add = |batch: &mut StatementBatch, id: i64| {
            batch.add("INSERT INTO note (id) VALUES ($1)", [id.into()]);
        };
        for id in [20, 12, 21] {
            add(&mut batch, id);
        }
        assert!(batch.run(&mut connection).await.is_err(), "a number twice");
        batch.add("SELECT id FROM note ORDER BY id", []);
        let rows = batch.run(&mut connection).await.expect("rows");
        let ids: Vec<i64> = rows[0].iter().map(|row| row.get(0)).collect();
        assert_eq!(ids, [12, 20]);
    }

    #[tokio::test]
    async fn statements_run_in_order_and_each_has_its_own_values_and_rows() {
        check("sqlite::memory:").await;
        if let Some(server) = PostgresServer::start(None) {
            check(&server.url()).await;
        }
    }
}

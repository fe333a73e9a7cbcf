//! The history of rows and tables, and the commits that cells are from.

use branchyard_http_common::segment;
use serde_json::{Value, json};

use crate::harness::ApiHarness;

const T: &str = "/databases/ada/rivers/tables/gauges";
const D: &str = "ada/rivers";

/// A table with a pull request that changed the level of gauge 4.
async fn gauges() -> (ApiHarness, String, Vec<String>) {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let create = "CREATE TABLE gauges(id INTEGER PRIMARY KEY, name TEXT, level REAL); \
                  INSERT INTO gauges VALUES (4,'Elbe',1.5),(5,'Oder',NULL)";
    let created = world.write(&ada, D, "main", create).await;
    world.branch(&ada, D, "work", "main").await;
    let renamed = world.write(&ada, D, "main", "UPDATE gauges SET name = 'Labe' WHERE id = 4").await;
    let leveled = world.write(&ada, D, "work", "UPDATE gauges SET level = 2.0 WHERE id = 4").await;
    let end = |branch: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
    let pull = json!({"title": "Levels", "from_branch": end("work"), "to_branch": end("main")});
    world.post(Some(&ada), "/databases/ada/rivers/pulls", pull).await.expect(201);
    let merge = world.post(Some(&ada), "/databases/ada/rivers/pulls/1/merge", json!({})).await;
    let merged = world.finish(&ada, &merge).await["result"]["commit_sha"].as_str().unwrap().to_owned();
    (world, ada, vec![created, renamed, leveled, merged])
}

fn key(key: &Value) -> String {
    segment(&key.to_string())
}

fn shas(list: &Value) -> Vec<&str> {
    list.as_array().unwrap().iter().map(|item| item["commit_sha"].as_str().unwrap()).collect()
}

#[actix_web::test]
async fn a_row_has_a_history_with_merges_and_pull_requests() {
    let (world, ada, commits) = gauges().await;
    let [created, renamed, leveled, merged] = commits.as_slice() else { panic!() };
    let address = format!("{T}/history?key={}", key(&json!({"id": 4})));
    let answer = world.get(None, &address).await.expect(200);
    let list = answer.data();
    assert_eq!(shas(&list), [merged, leveled, renamed, created], "{list}");
    assert_eq!(answer.json()["meta"]["searched"]["commits"], 5);
    assert_eq!(list[0]["from"], json!({"id": "4", "name": "Labe", "level": "1.5"}));
    assert_eq!(list[0]["to"], json!({"id": "4", "name": "Labe", "level": "2.0"}));
    let pulls: Vec<_> = list.as_array().unwrap().iter().map(|item| item["pull_number"].as_i64()).collect();
    assert_eq!(pulls, [Some(1), Some(1), None, None]);
    assert_eq!((&list[3]["change"], &list[3]["from"]), (&json!("added"), &Value::Null));
    assert_eq!(list[1]["author"]["name"], "ada");
    assert!(list[0].get("primary_key").is_none());

    let removed = world.write(&ada, D, "main", "DELETE FROM gauges WHERE id = 4").await;
    let list = world.get(None, &address).await.expect(200).data();
    assert_eq!(
        (shas(&list)[0], &list[0]["change"], &list[0]["to"]),
        (removed.as_str(), &json!("removed"), &Value::Null)
    );
    let at_work = world.get(None, &format!("{address}&ref=work")).await.expect(200).data();
    assert_eq!(shas(&at_work), [leveled, created]);
    world.get(None, &format!("{T}/blame?key={}", key(&json!({"id": "4"})))).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn a_table_has_a_history_of_its_rows_in_pages() {
    let (world, _, commits) = gauges().await;
    let [created, renamed, leveled, merged] = commits.as_slice() else { panic!() };
    let whole = world.get(None, &format!("{T}/history")).await.expect(200).data();
    assert_eq!(shas(&whole), [merged, leveled, renamed, created, created]);
    assert_eq!(whole[4]["primary_key"], json!({"id": "5"}));
    let (mut found, mut token) = (Vec::new(), String::new());
    for _ in 0..10 {
        let answer = world.get(None, &format!("{T}/history?page_size=1&page_token={token}")).await.expect(200).json();
        found.extend(answer["data"].as_array().unwrap().iter().cloned());
        match answer["meta"]["next_page_token"].as_str() {
            Some(next) => next.clone_into(&mut token),
            None => break,
        }
    }
    assert_eq!(json!(found), whole);
    // A token belongs to its list.
    let first = world.get(None, &format!("{T}/history?page_size=1")).await.expect(200).json();
    let token = first["meta"]["next_page_token"].as_str().unwrap();
    world.get(None, &format!("{T}/history?page_token={token}&ref=work")).await.refused_at(400, "page_token");
}

#[actix_web::test]
async fn keys_are_checked_with_all_their_faults() {
    let (world, ada, _) = gauges().await;
    let ask = |path: &str, key_of: &Value| format!("{T}/{path}?key={}", key(key_of));
    for path in ["history", "blame"] {
        let refused = world.get(None, &ask(path, &json!({"nope": "1", "id": null}))).await.expect(400).json();
        let errors = refused["errors"].as_array().unwrap();
        assert_eq!(errors.len(), 2, "{refused}");
        assert!(errors.iter().all(|error| error["parameter"] == "key"), "{refused}");
        for malformed in [json!({"id": [4]}), json!("4"), json!({"id": {"base64": "?"}}), json!({})] {
            world.get(None, &ask(path, &malformed)).await.refused_at(400, "key");
        }
        world.get(None, &ask(path, &json!({"id": "77"}))).await.refused(404, "NOT_FOUND");
        world.get(None, &format!("{}&ref=nope", ask(path, &json!({"id": "4"})))).await.refused(404, "NOT_FOUND");
        let other = ask(path, &json!({"id": "4"})).replace("gauges", "nope");
        world.get(None, &other).await.refused(404, "NOT_FOUND");
    }
    world.write(&ada, D, "main", "CREATE TABLE plain(a TEXT); INSERT INTO plain VALUES ('x')").await;
    let plain = ask("history", &json!({"a": "x"})).replace("gauges", "plain");
    world.get(None, &plain).await.refused(422, "UNPROCESSABLE");
    let list = world.get(None, "/databases/ada/rivers/tables/plain/history").await.expect(200).data();
    assert_eq!(list[0]["primary_key"], json!({"rowid": "1"}));
}

#[actix_web::test]
async fn each_cell_is_from_a_commit() {
    let (world, ada, commits) = gauges().await;
    let [created, renamed, leveled, _] = commits.as_slice() else { panic!() };
    let blame = world.get(None, &format!("{T}/blame?key={}", key(&json!({"ID": "4"})))).await.expect(200).data();
    let columns = &blame["columns"];
    assert_eq!(columns["id"]["commit_sha"], *created);
    assert!(columns["id"].get("from").is_none());
    assert_eq!((&columns["name"]["commit_sha"], &columns["name"]["from"]), (&json!(renamed), &json!("Elbe")));
    assert_eq!((&columns["level"]["commit_sha"], &columns["level"]["from"]), (&json!(leveled), &json!("1.5")));
    assert_eq!(columns["level"]["pull_number"], 1);
    assert_eq!((&blame["complete"], &columns["name"]["author"]["name"]), (&json!(true), &json!("ada")));
    world
        .write(&ada, D, "main", "UPDATE gauges SET level = NULL WHERE id = 5; UPDATE gauges SET level = 1 WHERE id = 5")
        .await;
    world.write(&ada, D, "main", "UPDATE gauges SET level = NULL WHERE id = 5").await;
    let blame = world.get(None, &format!("{T}/blame?key={}", key(&json!({"id": "5"})))).await.expect(200).data();
    assert_eq!(blame["columns"]["level"]["from"], "1.0");
    world.get(None, &format!("{T}/blame")).await.refused_at(400, "key");
}

/// What a merge left out is newer than what it kept, and yet gave the cell nothing.
#[actix_web::test]
async fn a_cell_is_from_the_side_that_a_merge_kept() {
    let (world, ada, commits) = gauges().await;
    let created = &commits[0];
    world.write(&ada, D, "main", "INSERT INTO gauges VALUES (6, 'Oste', 1)").await;
    world.branch(&ada, D, "theirs", "main").await;
    let set = |what: [&str; 3]| -> String {
        (4..).zip(what).map(|(id, what)| format!("UPDATE gauges SET {what} WHERE id = {id};")).collect()
    };
    let ours = set(["name = 'Elbe 1', level = 3", "name = 'O 1'", "name = 'O 1'"]);
    let ours = world.write(&ada, D, "main", &ours).await;
    let theirs = set(["name = 'Elbe 2'", "name = 'O 2', level = 8", "name = 'O 2'"]);
    let theirs = world.write(&ada, D, "theirs", &theirs).await;
    let end = |branch: &str| json!({"database": {"owner": "ada", "name": "rivers"}, "branch_name": branch});
    let pull = json!({"title": "Names", "from_branch": end("theirs"), "to_branch": end("main")});
    world.post(Some(&ada), "/databases/ada/rivers/pulls", pull).await.expect(201);
    let row =
        |id: u8, how: (&str, Value)| json!({"table": "gauges", "primary_key": {"id": id.to_string()}, how.0: how.1});
    let by_hand = row(6, ("row", json!({"name": "O 3"})));
    let rows = json!([row(4, ("take", json!("ours"))), row(5, ("take", json!("theirs"))), by_hand]);
    let merge = world.post(Some(&ada), "/databases/ada/rivers/pulls/2/merge", json!({"resolve_rows": rows})).await;
    let merged = world.finish(&ada, &merge).await["result"]["commit_sha"].as_str().unwrap().to_owned();

    for again in 0..2 {
        let blamed = async |id: u8, column: &str| {
            let address = format!("{T}/blame?key={}", key(&json!({"id": id})));
            let blame = world.get(None, &address).await.expect(200).data();
            assert_eq!(blame["complete"], true, "{blame}");
            let cell = &blame["columns"][column];
            (cell["commit_sha"].as_str().unwrap().to_owned(), cell["from"].clone(), cell["pull_number"].clone())
        };
        let none = Value::Null;
        assert_eq!(blamed(4, "name").await, (ours.clone(), json!("Labe"), none.clone()), "{again}");
        assert_eq!(blamed(4, "level").await, (ours.clone(), json!("2.0"), none.clone()));
        assert_eq!(blamed(5, "name").await, (theirs.clone(), json!("Oder"), json!(2)));
        assert_eq!(blamed(5, "level").await, (theirs.clone(), none.clone(), json!(2)));
        assert_eq!(blamed(5, "id").await.0, *created);
        assert_eq!(blamed(6, "name").await, (merged.clone(), json!("O 1"), json!(2)), "neither side had this name");
        // A later change of another row changes nothing.
        world.write(&ada, D, "main", &format!("INSERT INTO gauges VALUES (7{again}, 'Inn', 1)")).await;
    }
}

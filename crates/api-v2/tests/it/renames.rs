//! Renames and transfers of databases, and requests to the addresses that they had.

use branchyard_domain::usecases::Limits;
use serde_json::{Value, json};

use crate::harness::ApiHarness;

const OLD: &str = "/databases/ada/rivers";
const NEW: &str = "/databases/ada/streams";

/// Creates the organization `hydro` of a user, with another one as a member.
async fn organization(world: &ApiHarness, owner: &str, member: &str) {
    let body = json!({"name": "hydro", "base_role": "write"});
    world.post(Some(owner), "/organizations", body).await.expect(201);
    let path = format!("/organizations/hydro/members/{member}");
    world.put(Some(owner), &path, json!({"role": "member"})).await.expect(201);
}

fn address(data: &Value) -> String {
    format!("{}/{}", data["owner"].as_str().unwrap(), data["name"].as_str().unwrap())
}

#[actix_web::test]
async fn a_former_address_serves_what_the_new_one_does() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "public").await;
    world.write(&ada, "ada/rivers", "main", "create table r (id integer primary key)").await;
    let before = world.get(Some(&ada), OLD).await.expect(200);
    let renamed = world.patch(Some(&ada), OLD, json!({"name": "streams"})).await.expect(200);
    let mut expected = before.data();
    expected["name"] = json!("streams");
    assert_eq!(renamed.data(), expected);
    for path in [OLD, NEW, "/databases/ADA/Rivers"] {
        let got = world.get(Some(&ada), path).await.expect(200);
        assert_eq!((got.data(), got.header("etag")), (expected.clone(), renamed.header("etag")), "{path}");
        assert_eq!(address(&world.get(None, path).await.expect(200).data()), "ada/streams");
    }
    // Lists below, changes, and operations with their addresses.
    let branches = world.get(None, &format!("{OLD}/branches")).await.expect(200);
    assert_eq!(branches.data(), world.get(None, &format!("{NEW}/branches")).await.expect(200).data());
    world.branch(&ada, "ada/rivers", "work", "main").await;
    world.get(None, &format!("{NEW}/branches/work")).await.expect(200);
    world.write(&ada, "ada/rivers", "work", "insert into r values (1)").await;
    world.post(None, &format!("{OLD}/sql"), json!({"ref": "work", "q": "select id from r"})).await.expect(200);
    // An operation that began before is followed at the address that its client got.
    let listed = world.get(Some(&ada), &format!("{NEW}/operations")).await.expect(200).data();
    let now = listed[0]["id"].as_str().unwrap().to_owned();
    let then = now.replace("ada/streams", "ada/rivers");
    assert_ne!(now, then);
    for id in [&now, &then, &then.replace('/', "%2F")] {
        assert_eq!(world.get(Some(&ada), &format!("/operations/{id}")).await.expect(200).data(), listed[0], "{id}");
    }
    let elsewhere = now.replace("ada/streams", "ada/lakes");
    world.get(Some(&ada), &format!("/operations/{elsewhere}")).await.refused(404, "NOT_FOUND");
    let listed = world.get(None, "/databases").await.expect(200).data();
    assert_eq!(listed.as_array().unwrap().iter().map(address).collect::<Vec<_>>(), ["ada/streams"]);
    let branch = |database: &str, name: &str| {
        let (owner, database) = database.split_once('/').unwrap();
        json!({"database": {"owner": owner, "name": database}, "branch_name": name})
    };
    let pull =
        json!({"title": "One", "from_branch": branch("ada/rivers", "work"), "to_branch": branch("ada/rivers", "main")});
    let opened = world.post(Some(&ada), &format!("{OLD}/pulls"), pull).await.expect(201);
    assert_eq!(address(&opened.data()["from_branch"]["database"]), "ada/streams");
    assert!(opened.header("location").contains("/databases/ada/streams/pulls/1"), "{}", opened.header("location"));
    world.delete(Some(&bob), OLD).await.refused(403, "PERMISSION_DENIED");
    // It ends with a database that takes the address, and with the database.
    world.database(&ada, "ada", "rivers", "private").await;
    world.get(Some(&bob), OLD).await.refused(404, "NOT_FOUND");
    assert_eq!(address(&world.get(Some(&ada), OLD).await.expect(200).data()), "ada/rivers");
    world.patch(Some(&ada), NEW, json!({"name": "brooks"})).await.expect(200);
    world.delete(Some(&ada), "/databases/ada/brooks").await.expect(200);
    world.get(Some(&ada), NEW).await.refused(404, "NOT_FOUND");
}

#[actix_web::test]
async fn a_hidden_database_is_hidden_at_its_former_addresses() {
    let world = ApiHarness::new();
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    world.database(&ada, "ada", "rivers", "private").await;
    world.patch(Some(&ada), OLD, json!({"name": "streams"})).await.expect(200);
    for who in [None, Some(bob.as_str())] {
        let absent = world.get(who, "/databases/ada/nothing").await;
        for path in [OLD, NEW] {
            let hidden = world.get(who, path).await;
            hidden.refused(404, "NOT_FOUND");
            assert_eq!(hidden.json()["detail"], absent.json()["detail"]);
        }
    }
    world.patch(Some(&bob), OLD, json!({"name": "mine"})).await.refused(404, "NOT_FOUND");
    world.put(Some(&ada), &format!("{OLD}/collaborators/bob"), json!({"role": "read"})).await.expect(201);
    assert_eq!(address(&world.get(Some(&bob), OLD).await.expect(200).data()), "ada/streams");
    world.patch(Some(&bob), OLD, json!({"name": "mine"})).await.refused(403, "PERMISSION_DENIED");
}

#[actix_web::test]
async fn a_transfer_wants_the_right_to_create_there() {
    let world = ApiHarness::new();
    let (ada, bob, cleo) = (world.user("ada"), world.user("bob"), world.user("cleo"));
    organization(&world, &bob, "ada").await;
    world.database(&ada, "ada", "rivers", "private").await;
    world.put(Some(&ada), &format!("{OLD}/collaborators/cleo"), json!({"role": "admin"})).await.expect(201);
    for owner in ["bob", "unknown", "a b"] {
        world.patch(Some(&ada), OLD, json!({"owner": owner})).await.refused(403, "PERMISSION_DENIED");
    }
    world.patch(Some(&cleo), OLD, json!({"owner": "hydro"})).await.refused(403, "PERMISSION_DENIED");
    world.get(Some(&bob), OLD).await.refused(404, "NOT_FOUND");
    let moved = world.patch(Some(&ada), OLD, json!({"owner": "HYDRO", "name": "lakes"})).await.expect(200).data();
    assert_eq!((address(&moved), &moved["viewer_role"]), ("hydro/lakes".to_owned(), &json!("admin")));
    for (who, role) in [(&ada, "admin"), (&bob, "admin"), (&cleo, "admin")] {
        let seen = world.get(Some(who), OLD).await.expect(200).data();
        assert_eq!((address(&seen), &seen["viewer_role"]), ("hydro/lakes".to_owned(), &json!(role)));
    }
    // The same request again changes nothing.
    let again = world.patch(Some(&ada), OLD, json!({"owner": "HYDRO", "name": "lakes"})).await.expect(200).data();
    assert_eq!(again, moved);
    // Cleo, a collaborator with the role `admin`, takes it over.
    let taken = world.patch(Some(&cleo), "/databases/hydro/lakes", json!({"owner": "cleo"})).await.expect(200).data();
    assert_eq!(address(&taken), "cleo/lakes");
    world.get(Some(&bob), "/databases/cleo/lakes").await.refused(404, "NOT_FOUND");
    for path in [OLD, "/databases/hydro/lakes"] {
        assert_eq!(address(&world.get(Some(&ada), path).await.expect(200).data()), "cleo/lakes");
        world.get(Some(&bob), path).await.refused(404, "NOT_FOUND");
    }
}

#[actix_web::test]
async fn a_new_address_is_refused_for_the_right_reason() {
    let world = ApiHarness::limited(Limits { databases_per_owner: 2, ..Limits::default() });
    let (ada, bob) = (world.user("ada"), world.user("bob"));
    organization(&world, &ada, "bob").await;
    for name in ["rivers", "lakes"] {
        world.database(&ada, "ada", name, "public").await;
        world.database(&bob, "hydro", name, "public").await;
    }
    let seen = world.get(Some(&ada), OLD).await.expect(200);
    world.if_match(&ada, "PATCH", OLD, "\"x\"", Some(json!({"name": "x"}))).await.refused(412, "PRECONDITION_FAILED");
    world.patch(Some(&ada), OLD, json!({"name": "LAKES"})).await.refused(409, "CONFLICT");
    world.patch(Some(&ada), OLD, json!({"owner": "hydro"})).await.refused(409, "CONFLICT");
    let full = world.patch(Some(&ada), OLD, json!({"owner": "hydro", "name": "x"})).await;
    full.refused(422, "UNPROCESSABLE");
    assert_eq!(full.json()["detail"], "the owner has reached the limit of 2 databases");
    world.patch(None, OLD, json!({"name": "x"})).await.refused(401, "UNAUTHENTICATED");
    world.patch(Some(&bob), OLD, json!({"name": "x"})).await.refused(403, "PERMISSION_DENIED");
    assert_eq!(world.get(Some(&ada), OLD).await.expect(200).header("etag"), seen.header("etag"), "nothing changed");
    let fresh = world.if_match(&ada, "PATCH", OLD, seen.header("etag"), Some(json!({"name": "x"}))).await.expect(200);
    // By its former address, the new state is compared.
    world
        .if_match(&ada, "PATCH", OLD, seen.header("etag"), Some(json!({"name": "y"})))
        .await
        .refused(412, "PRECONDITION_FAILED");
    let edit = json!({"name": "rivers", "description": "Back"});
    let back = world.if_match(&ada, "PATCH", OLD, fresh.header("etag"), Some(edit)).await.expect(200).data();
    assert_eq!((address(&back), &back["description"]), ("ada/rivers".to_owned(), &json!("Back")));
}

#[actix_web::test]
async fn an_answer_for_a_key_is_repeated_at_the_address_of_the_request() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let send = || {
        ApiHarness::request(Some(&ada), "POST", &format!("{OLD}/branches"))
            .insert_header(("Idempotency-Key", "k"))
            .set_json(json!({"name": "work", "from": {"branch": "main"}}))
    };
    let first = world.send(send()).await.expect(201);
    world.patch(Some(&ada), OLD, json!({"name": "streams"})).await.expect(200);
    let again = world.send(send()).await.expect(201);
    assert_eq!((again.data(), again.header("idempotent-replayed")), (first.data(), "true"));
}

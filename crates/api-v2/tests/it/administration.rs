//! Suspended users and quarantined databases.

use serde_json::json;

use crate::harness::ApiHarness;

#[actix_web::test]
async fn the_token_of_a_suspended_user_is_no_credential() {
    let world = ApiHarness::new();
    let ada = world.user("ada");
    world.database(&ada, "ada", "rivers", "public").await;
    let write = json!({"from_branch": "main", "to_branch": "main", "q": "create table t (id integer primary key)"});
    let queued = world.post(Some(&ada), "/databases/ada/rivers/sql-writes", write).await.expect(202).data();
    let administration = world.fakes.hub.administration();
    administration.suspend(&administration.operator(), "ada").unwrap();
    let refused = world.get(Some(&ada), "/user").await;
    refused.refused(401, "UNAUTHENTICATED");
    assert!(refused.header("www-authenticate").contains("invalid_token"));
    world.get(Some(&ada), "/databases/ada/rivers").await.refused(401, "UNAUTHENTICATED");
    world.get(None, "/databases/ada/rivers").await.expect(200);
    administration.resume(&administration.operator(), "ada").unwrap();
    let path = queued["href"].as_str().unwrap().strip_prefix("https://yard.test/api/v2").unwrap();
    let failed = world.get(Some(&ada), path).await.expect(200).data();
    assert_eq!((&failed["status"], &failed["error"]["code"]), (&json!("failed"), &json!("PERMISSION_DENIED")));
    assert_eq!(failed["error"]["detail"], "ada is suspended");
}

#[actix_web::test]
async fn a_quarantined_database_looks_absent() {
    let world = ApiHarness::new();
    let (ada, root) = (world.user("ada"), world.user("root"));
    world.database(&ada, "ada", "rivers", "public").await;
    let administration = world.fakes.hub.administration();
    let operator = administration.operator();
    administration.make_admin(&operator, "root").unwrap();
    administration.quarantine(&operator, "ada", "rivers").unwrap();
    for path in ["", "/branches", "/commits", "/pulls", "/sql?q=select+1", "/forks", "/operations", "/hooks"] {
        for who in [Some(ada.as_str()), None] {
            let hidden = world.get(who, &format!("/databases/ada/rivers{path}")).await;
            let absent = world.get(who, &format!("/databases/ada/nothing{path}")).await;
            assert_eq!(
                (hidden.status, hidden.json()["detail"].clone()),
                (absent.status, absent.json()["detail"].clone())
            );
            assert!(matches!(hidden.status, 401 | 404), "{path}");
        }
    }
    let names = async |who: &str| world.get(Some(who), "/databases").await.expect(200).data().as_array().unwrap().len();
    assert_eq!((names(&ada).await, names(&root).await), (0, 1));
    let seen = world.get(Some(&root), "/databases/ada/rivers").await.expect(200).data();
    assert_eq!(seen["viewer_role"], "read");
    let again = json!({"owner": "ada", "name": "rivers", "visibility": "public"});
    world.post(Some(&ada), "/databases", again).await.refused(409, "CONFLICT");
    administration.release(&operator, "ada", "rivers").unwrap();
    world.get(None, "/databases/ada/rivers").await.expect(200);
}

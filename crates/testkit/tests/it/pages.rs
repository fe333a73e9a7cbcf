//! Pages for people.

use branchyard_testkit::Server;

#[test]
fn pages_need_nothing_from_elsewhere() {
    let server = Server::start();
    let client = reqwest::blocking::Client::builder().no_proxy().build().unwrap();
    for path in ["/docs/api/v2", "/docs/api/v1alpha1", "/docs/api/hosted-v1", "/docs/errors", "/docs/errors/not-found"]
    {
        let answer = client.get(format!("{}{path}", server.address())).send().unwrap();
        assert_eq!(answer.status(), 200, "{path}");
        assert_eq!(answer.headers()["content-type"], "text/html; charset=utf-8");
        let policy = answer.headers()["content-security-policy"].to_str().unwrap().to_owned();
        assert!(policy.starts_with("default-src 'none'; style-src 'sha256-"), "{policy}");
        let text = answer.text().unwrap();
        assert!(text.contains("<style>") && text.contains("prefers-color-scheme:dark"), "{path}");
        assert!(!text.contains("<script"), "{path}");
    }
    let missing = client.get(format!("{}/docs/errors/nothing", server.address())).send().unwrap();
    assert_eq!(missing.status(), 404);
}

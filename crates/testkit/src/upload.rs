//! Uploads and imports, as a client does them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest as _, Md5};
use reqwest::Method;
use serde_json::{Value, json};

use crate::Actor;

impl Actor {
    /// Uploads `bytes` in `parts` parts, imports them, and returns the finished operation. `fields` override the fields of the request.
    pub fn import(&self, database: &str, file_type: &str, bytes: &[u8], parts: usize, fields: &Value) -> Value {
        let body = self.upload(database, file_type, bytes, parts, fields);
        self.finish(&self.post(&format!("/databases/{database}/imports"), &body))
    }

    /// Uploads `bytes` and returns the body of the import request, which is not sent yet.
    pub fn upload(&self, database: &str, file_type: &str, bytes: &[u8], parts: usize, fields: &Value) -> Value {
        let announced = json!({"content_length": bytes.len(), "num_parts": parts, "file_type": file_type});
        let session = self.post(&format!("/databases/{database}/imports/uploads"), &announced).expect(201).data();
        let mut completed = Vec::new();
        let mut texts = String::new();
        for (part, chunk) in session["parts"].as_array().unwrap().iter().zip(bytes.chunks(bytes.len().div_ceil(parts)))
        {
            let nobody = self.signed_out();
            let put = nobody.request(Method::PUT, part["url"].as_str().unwrap()).body(chunk.to_vec());
            let etag = nobody.send(put).expect(200).header("etag").to_owned();
            completed.push(json!({"part_number": part["part_number"], "etag": etag}));
            texts.push_str(&STANDARD.encode(Md5::digest(chunk)));
        }
        let mut body = json!({
            "branch_name": "main", "table_name": "t", "file_name": format!("t.{file_type}"), "file_size": bytes.len(),
            "file_type": file_type, "import_operation": "create", "token": session["token"],
            "contents_key": session["contents_key"], "completed_parts": completed,
            "file_parts_md5": STANDARD.encode(Md5::digest(&texts)), "primary_keys": [],
        });
        for (name, value) in fields.as_object().unwrap() {
            body[name] = value.clone();
        }
        body
    }
}

"""Writes, reads, forks, merges, imports and downloads, with nothing but the standard library."""

import csv
import io
import json
import os
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

URL = os.environ["BRANCHYARD_URL"]
TOKEN = os.environ["BRANCHYARD_TOKEN"]
USER = os.environ["BRANCHYARD_USER"]
API = URL + "/api/v1alpha1"


def call(method, url, params=None, body=None, headers=None):
    """Sends a request. Returns its status and the decoded JSON."""
    if params:
        url += "?" + urllib.parse.urlencode(params)
    sent = {"authorization": "token " + TOKEN}
    sent.update(headers or {})
    if isinstance(body, (dict, list)):
        body = json.dumps(body).encode()
        sent.setdefault("content-type", "application/json")
    request = urllib.request.Request(url, data=body, headers=sent, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.loads(response.read())
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


def wait(url, name):
    """Polls until the operation is done."""
    for _ in range(600):
        status, answer = call("GET", url, {"operationName": name})
        assert status == 200, answer
        if answer["done"]:
            return answer
        time.sleep(0.05)
    raise AssertionError("never done")


def write(database, source, target, query):
    quoted = [urllib.parse.quote(branch, safe="") for branch in (source, target)]
    status, started = call("POST", f"{API}/{USER}/{database}/write/{quoted[0]}/{quoted[1]}", {"q": query})
    assert status == 200 and started["query_execution_status"] == "Success", started
    assert started["operation_name"], started
    done = wait(f"{API}/{USER}/{database}/write", started["operation_name"])
    assert done["res_details"]["query_execution_status"] == "Success", done
    return done["res_details"]


def read(database, ref, query):
    status, answer = call("GET", f"{API}/{USER}/{database}/{ref}", {"q": query})
    assert status == 200 and answer["query_execution_status"] == "Success", answer
    return [list(row.values()) for row in answer["rows"]]


def write_poll_read():
    status, made = call("POST", f"{API}/database", body={
        "ownerName": USER, "repoName": "py_trees", "visibility": "public", "description": "City trees"})
    assert status == 200 and made["repository_name"] == "py_trees", made
    status, again = call("POST", f"{API}/database", body={
        "ownerName": USER, "repoName": "py_trees", "visibility": "public"})
    assert status == 400 and "already exists" in again["message"], again
    write("py_trees", "main", "main", "CREATE TABLE tree (name TEXT, id INTEGER PRIMARY KEY)")
    landed = write("py_trees", "main", "main", "INSERT INTO tree VALUES ('oak', 7), (NULL, 8)")
    assert landed["from_commit_id"] != landed["to_commit_id"], landed
    assert read("py_trees", "main", "SELECT name, id FROM tree ORDER BY id") == [["oak", "7"], [None, "8"]]
    status, failed = call("GET", f"{API}/{USER}/py_trees/main", {"q": "selct 1"})
    assert status == 200 and failed["query_execution_status"] == "Error", failed


def branch_pull_merge():
    write("py_trees", "main", "fix/elm", "UPDATE tree SET name = 'elm' WHERE id = 7")
    status, pull = call("POST", f"{API}/{USER}/py_trees/pulls", body={
        "title": "Rename", "description": "", "fromBranchOwnerName": USER, "fromBranchRepoName": "py_trees",
        "fromBranchName": "fix/elm", "toBranchOwnerName": USER, "toBranchRepoName": "py_trees", "toBranchName": "main"})
    assert status == 200, pull
    merge = f"{API}/{USER}/py_trees/pulls/{pull['_id']}/merge"
    status, started = call("POST", merge)
    assert status == 200 and "state" not in started, started
    assert wait(merge, started["operation_name"])["job_status"] == "Completed"
    status, shown = call("GET", f"{API}/{USER}/py_trees/pulls/{pull['pull_id']}")
    assert status == 200 and shown["state"] == "Merged", shown
    assert read("py_trees", "main", "SELECT name FROM tree WHERE id = 7") == [["elm"]]


def upload_poll_merge():
    boundary = uuid.uuid4().hex
    params = {"tableName": "tree", "fileName": "trees.csv", "branchName": "main", "fileType": "Csv",
              "importOp": "Update", "primaryKeys": ["id"]}
    parts = [
        ('name="file"; filename="trees.csv"', "application/octet-stream", "id,name\n8,ash\n9,yew\n"),
        ('name="params"', "application/json", json.dumps(params)),
    ]
    body = "".join(
        f"--{boundary}\r\nContent-Disposition: form-data; {name}\r\nContent-Type: {kind}\r\n\r\n{text}\r\n"
        for name, kind, text in parts) + f"--{boundary}--\r\n"
    status, started = call("POST", f"{API}/{USER}/py_trees/upload", body=body.encode(),
                           headers={"content-type": f"multipart/form-data; boundary={boundary}"})
    assert status == 200, started
    done = wait(f"{API}/{USER}/py_trees/upload", started["operation_name"])
    assert done["job_status"] == "Completed" and done["pull_id"], done
    merge = f"{API}/{USER}/py_trees/pulls/{done['pull_id']}/merge"
    status, started = call("POST", merge, body={})
    assert status == 200, started
    assert wait(merge, started["operation_name"])["job_status"] == "Completed"
    assert read("py_trees", "main", "SELECT name FROM tree ORDER BY id") == [["elm"], ["ash"], ["yew"]]


def download():
    with urllib.request.urlopen(f"{URL}/csv/{USER}/py_trees/main/tree", timeout=60) as response:
        rows = list(csv.DictReader(io.StringIO(response.read().decode())))
    assert [row["name"] for row in rows] == ["elm", "ash", "yew"], rows


if __name__ == "__main__":
    write_poll_read()
    branch_pull_merge()
    upload_poll_merge()
    download()

#!/usr/bin/env bash
# Writes, reads, merges, imports and downloads, with curl, and jq to read answers.
set -euo pipefail

api="$BRANCHYARD_URL/api/v1alpha1"
here="$api/$BRANCHYARD_USER/sh_trees"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

fail() { echo "$*" >&2; exit 1; }
call() { curl --silent --show-error --fail-with-body --header "authorization: token $BRANCHYARD_TOKEN" "$@"; }
# Without --exit-status, jq would not fail on a missing field.
field() { jq --exit-status --raw-output "$1" || fail "no $1"; }
is() { [ "$1" = "$2" ] || fail "expected '$2', got '$1'"; }

# wait_for ADDRESS NAME FIELD
wait_for() {
    local answer
    for _ in $(seq 600); do
        answer=$(call --get "$1" --data-urlencode "operationName=$2")
        if [ "$(jq '.done' <<<"$answer")" = true ]; then
            field "$3" <<<"$answer"
            return
        fi
        sleep 0.05
    done
    fail "never done: $2"
}

# write FROM TO STATEMENTS
write() {
    local name
    # curl --data sends this JSON with the content type of a form.
    name=$(jq --null-input --arg query "$3" '{$query}' | call "$here/write/$1/$2" --data @- | field .operation_name)
    is "$(wait_for "$here/write" "$name" .res_details.query_execution_status)" Success
}

read_rows() { call --get "$here/$1" --data-urlencode "q=$2" | field '.rows | map(to_entries | map(.value // "NULL") | join("|")) | join(",")'; }

body=$(jq --null-input --arg ownerName "$BRANCHYARD_USER" '{$ownerName, repoName: "sh_trees", visibility: "private"}')
is "$(call "$api/database" --data "$body" | field .status)" Success
write main main "CREATE TABLE tree (name TEXT, id INTEGER PRIMARY KEY)"
write main main "INSERT INTO tree VALUES ('oak', 7), (NULL, 8);"
is "$(read_rows main 'SELECT id, name FROM tree ORDER BY id')" '7|oak,8|NULL'

write main fix%2F7 "UPDATE tree SET name = 'elm' WHERE id = 7"
is "$(read_rows fix/7 'SELECT name FROM tree WHERE id = 7')" elm
pull=$(call "$here/pulls" --data '{"title": "Rename", "fromBranchName": "fix/7", "toBranchName": "main"}' | field .pull_id)
name=$(call --request POST "$here/pulls/$pull/merge" | field .operation_name)
is "$(wait_for "$here/pulls/$pull/merge" "$name" .job_status)" Completed
is "$(call "$here/pulls/$pull" | field .state)" Merged

printf 'id,name\n9,yew\n' >"$work/more.csv"
params='{"fileName": "more.csv", "branchName": "main", "fileType": "Csv", "importOp": "Update", "tableName": "tree"}'
name=$(call "$here/upload" --form "params=$params" --form "file=@$work/more.csv" | field .operation_name)
pull=$(wait_for "$here/upload" "$name" .pull_id)
name=$(call --request POST "$here/pulls/$pull/merge" | field .operation_name)
is "$(wait_for "$here/upload" "$name" .job_status)" Completed

is "$(call "$BRANCHYARD_URL/csv/$BRANCHYARD_USER/sh_trees/main/tree")" $'name,id\nelm,7\n,8\nyew,9'

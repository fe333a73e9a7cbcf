DROP TABLE oauth_devices;
DROP TABLE oauth_codes;
DROP TABLE oauth_access_tokens;
DROP TABLE oauth_grants;
DROP TABLE oauth_applications;

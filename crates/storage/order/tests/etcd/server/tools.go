//go:build tools

// Package tools makes `go mod tidy` keep etcd's server.
package tools

import _ "go.etcd.io/etcd/server/v3"

package hub

import (
	"fmt"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
)

// DefaultRevision is the branch that is used without a revision.
const DefaultRevision = "main"

var (
	repoPart = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)
	refPart  = regexp.MustCompile(`^[A-Za-z0-9_+=%][A-Za-z0-9_.+=%@,-]*$`)
	commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// checkNames checks a repository and a revision before they become parts of a path and an address.
func checkNames(repo, revision string) error {
	if err := checkRepo(repo); err != nil {
		return err
	}
	return checkRevision(revision)
}

// checkRepo follows huggingface_hub's rules for names (validate_repo_id).
func checkRepo(repo string) error {
	org, name, ok := strings.Cut(repo, "/")
	if !ok || len(repo) > 96 || !repoPart.MatchString(org) || !repoPart.MatchString(name) ||
		strings.Contains(repo, "..") || strings.Contains(repo, "--") ||
		strings.HasSuffix(name, ".git") {
		return fmt.Errorf("repository is %.100q, want org/name of letters, digits, '-', '_' and "+
			"single '.'", repo)
	}
	return nil
}

// checkRevision accepts the names of branches, tags and commits that are safe as a path, a part of
// the rules of git check-ref-format.
func checkRevision(revision string) error {
	isBad := len(revision) > 200 || strings.Contains(revision, "..") ||
		strings.Contains(revision, "@{")
	for part := range strings.SplitSeq(revision, "/") {
		if !refPart.MatchString(part) || strings.HasSuffix(part, ".") ||
			strings.HasSuffix(part, ".lock") {
			isBad = true
		}
	}
	if isBad {
		return fmt.Errorf("revision is %.100q, want a branch, a tag or a commit", revision)
	}
	return nil
}

// checkFile accepts relative paths without ".." and without characters that some file systems read
// differently: names come from the server and become paths in the cache.
func checkFile(name string) error {
	isForbidden := func(r rune) bool {
		return r < ' ' || r == 0x7f || strings.ContainsRune(`\:"<>|`, r)
	}
	isBad := name == "" || len(name) > 1000
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || part == "." || part == ".." || len(part) > 255 ||
			strings.ContainsFunc(part, isForbidden) {
			isBad = true
		}
	}
	if isBad {
		return fmt.Errorf("file is %.100q, want a relative path inside the repository", name)
	}
	return nil
}

// cacheFolder returns a repository's directory in the cache.
func cacheFolder(repo string) string { return "models--" + strings.ReplaceAll(repo, "/", "--") }

// RepoFromPath returns the repository org/name of a file or directory within a cache of the hub,
// which has models--org--name/snapshots/COMMIT, also through links; "" for other places.
func RepoFromPath(place string) string {
	// A GGUF file of a snapshot is itself a link, out of the snapshot to its blob.
	if target, err := filepath.EvalSymlinks(place); err == nil && filepath.Ext(place) != ".gguf" {
		place = target
	}
	full, err := filepath.Abs(place)
	if err != nil {
		return ""
	}
	parts := strings.Split(filepath.ToSlash(full), "/")
	for i := len(parts) - 3; i >= 0; i-- {
		name, ok := strings.CutPrefix(parts[i], "models--")
		if !ok || parts[i+1] != "snapshots" || !commitID.MatchString(parts[i+2]) {
			continue
		}
		repo := strings.ReplaceAll(name, "--", "/")
		if checkRepo(repo) == nil {
			return repo
		}
	}
	return ""
}

// escapePath escapes the parts of a file's path for a URL.
func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// fileURL returns the URL of a file of a revision. A revision's slashes are escaped too, because it
// is one element of the path.
func (c *Client) fileURL(repo, revision, file string) string {
	return c.Endpoint + "/" + repo + "/resolve/" + url.PathEscape(revision) + "/" + escapePath(file)
}

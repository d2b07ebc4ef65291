/*
 * dump_package_test.c - all resources of a source out of the packages of its
 * dump.
 */
#include "client/baseline/baseline.h"
#include "tests/test.h"
#include "tests/unit/baseline/baseline_stage.h"

FIXTURE(set_up, tear_down);

/* and a member that differs from its
 * entry is fetched from its source. */
TEST(a_dump_comes_with_files)
{
    struct fixture *f = *state;

    put_dump(f, MANIFEST "<url><loc>http://e.org/two</loc>"
                         "<rs:md path=\"/2\" length=\"3\"/></url>"
                         "<url><loc>http://e.org/one</loc>"
                         "<rs:md path=\"/1\" hash=\"" MD5_ONE "\"/></url>"
                         "<url><loc>http://e.org/none</loc>"
                         "<rs:md path=\"/3\"/></url>"
                         "<url><loc>http://e.org/bare</loc></url></urlset>");
    run(f, NULL, "/dump");
    assert_baseline(f,
                    "http://e.org/two two;http://e.org/one one;"
                    "http://e.org/none;http://e.org/bare;",
                    "@2026-01-01T00:00:00.000000Z+0");
    assert_scratch_empty(f);

    put_dump(f, MANIFEST "<url><loc>http://e.org/two</loc>"
                         "<rs:md path=\"/2\" hash=\"" MD5_ONE "\"/></url>"
                         "<url><loc>http://e.org/one</loc>"
                         "<rs:md path=\"/1\" length=\"4\"/></url>"
                         "<url><loc>http://e.org/again</loc>"
                         "<rs:md path=\"/1\"/></url></urlset>");
    run(f, NULL, "/dump");
    assert_baseline(f, "http://e.org/two;http://e.org/one;http://e.org/again;",
                    "@2026-01-01T00:00:00.000000Z+0");
    assert_scratch_empty(f);
}

/* */
TEST(a_dump_index_is_read_package_by_package)
{
    struct fixture *f = *state;

    put_dump(f, MANIFEST "<url><loc>http://e.org/one</loc>"
                         "<rs:md path=\"/1\"/></url></urlset>");
    site_putf(f->site, "/index", NULL,
              INDEX "<rs:md capability=\"resourcedump\" "
                    "at=\"2025-01-01T00:00:00Z\"/>"
                    "<sitemap><loc>%s/dump</loc></sitemap></sitemapindex>",
              site_url(f->site));
    f->pauses = true;
    start(f, NULL, "/index");
    assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                     STATUS_OK);
    f->is_over = f->is_paused = false;
    baseline_hold(f->baseline, false);
    assert_int_equal(handle_loop_until(f->client->loop, &f->is_over),
                     STATUS_OK);
    assert_baseline(f, "http://e.org/one one;",
                    "@2025-01-01T00:00:00.000000Z+0");
}

/* A list of all resources without their files: the manifest, by its address or
 * out of the package. */
TEST(a_dump_is_read_as_a_list)
{
    struct fixture *f = *state;

    static const struct {
        const char *contents, *manifest;
        unsigned n_packages;
    } rows[] = {
        {"", NULL, 1},
        {"<rs:ln rel=\"contents\" href=\"/m\"/>", MANIFEST, 0},
        {"<rs:ln rel=\"contents\" href=\"/dead\"/>", MANIFEST, 1},
        {"<rs:ln rel=\"contents\" href=\"/m\"/>", "<html>no</html>", 1},
        {"<rs:ln rel=\"contents\" href=\"/m\"/>",
         OPEN "<rs:md capability=\"changedump-manifest\"/>", 0},
    };

    const char *entries = "<url><loc>http://e.org/two</loc>"
                          "<rs:md path=\"/2\"/></url>"
                          "<url><loc>http://e.org/one</loc>"
                          "<rs:md path=\"/1\" length=\"9\"/></url></urlset>";
    struct buf manifest;

    buf_init(&manifest, 10000);
    buf_add_format(&manifest, MANIFEST "%s", entries);
    f->is_listed = true;
    for (size_t i = 0; i < N_ELEMENTS(rows); i++) {
        unsigned n = site_count(f->site, "/files/p.zip");

        put_dump(f, text_of(&manifest));
        site_putf(f->site, "/dump", NULL,
                  OPEN DUMP "<url><loc>%s/files/p.zip</loc>%s</url></urlset>",
                  site_url(f->site), rows[i].contents);
        site_putf(f->site, "/m", NULL, "%s%s",
                  rows[i].manifest ? rows[i].manifest : "", entries);
        run(f, NULL, "/dump");
        if (i + 1 == N_ELEMENTS(rows))
            assert_fails(f, STATUS_MALFORMED, "/m: it is neither a Resource");
        else
            assert_baseline(f, "http://e.org/two;http://e.org/one;",
                            "@2026-01-01T00:00:00.000000Z+0");
        assert_int_equal(site_count(f->site, "/files/p.zip") - n,
                         rows[i].n_packages);
    }
    buf_fini(&manifest);
    assert_scratch_empty(f);
}

/* a file that is no ZIP, or is not available, is replaced by the
 * list. */
TEST(a_dump_that_cannot_be_used_is_left_for_the_list)
{
    struct fixture *f = *state;
    struct zips z;

    site_putf(f->site, "/list", NULL,
              OPEN LIST "<url><loc>http://e.org/aaa</loc></url></urlset>");
    put_dump(f, MANIFEST "</urlset>");
    tempdir_write(f->served.fd, "p.zip", "WARC/1.0\r\n");
    run(f, "/list", "/dump");
    assert_baseline(f, "http://e.org/aaa;", "@2026-01-02T00:00:00.000000Z+0");
    assert_non_null(strstr(text_of(&f->notes), "/files/p.zip: it is not a ZIP "
                                               "package: it does not begin"));
    assert_scratch_empty(f);
    run(f, NULL, "/dump");
    assert_fails(f, STATUS_MALFORMED, "/files/p.zip: ");
    assert_int_equal(f->n, 0);

    zips_begin(&z, f->served.fd, "p.zip");
    zips_encrypt(&z);
    zips_add(&z, "manifest.xml", SLICE(MANIFEST "</urlset>"));
    zips_end(&z);
    run(f, "/list", "/dump");
    assert_baseline(f, "http://e.org/aaa;", "@2026-01-02T00:00:00.000000Z+0");
    assert_non_null(strstr(text_of(&f->notes), "is encrypted"));

    assert_int_equal(unlinkat(f->served.fd, "p.zip", 0), 0);
    run(f, "/list", "/dump");
    assert_baseline(f, "http://e.org/aaa;", "@2026-01-02T00:00:00.000000Z+0");
    run(f, "/list", "/none");
    assert_baseline(f, "http://e.org/aaa;", "@2026-01-02T00:00:00.000000Z+0");
    assert_scratch_empty(f);
}

/* the next download resumes a broken package, as its digest proves the
 * whole. */
TEST(a_package_that_broke_off_is_resumed)
{
    struct fixture *f = *state;
    size_t size = 3 * 1024 * 1024, n;
    char *noise = malloc(size + 4096);
    unsigned char digest[EVP_MAX_MD_SIZE];
    struct buf hash;
    unsigned digest_size = 0;
    struct zips z;
    int fd;

    srandom(1);
    for (size_t i = 0; i < size; i++)
        noise[i] = (char)random();
    zips_begin(&z, f->served.fd, "p.zip");
    zips_add(&z, "noise", (struct slice){noise, size});
    zips_add(&z, "1", SLICE("one"));
    zips_add(&z, "manifest.xml",
             SLICE(MANIFEST "<url><loc>http://e.org/one</loc>"
                            "<rs:md path=\"/1\"/></url></urlset>"));
    zips_end(&z);
    fd = openat(f->served.fd, "p.zip", O_RDONLY);
    n = (size_t)read(fd, noise, size + 4096);
    close(fd);
    assert_true(n > size && n < size + 4096);
    EVP_Digest(noise, n, digest, &digest_size, EVP_sha256(), NULL);
    buf_init(&hash, 100);
    buf_add_hex(&hash, digest, digest_size);
    site_putf(f->site, "/dump", NULL,
              OPEN DUMP "<url><loc>%s/files/p.zip</loc>"
                        "<rs:md hash=\"sha-256:%s\"/></url></urlset>",
              site_url(f->site), text_of(&hash));
    buf_fini(&hash);
    free(noise);

    /* The first is stopped in the middle, as by a kill. */
    site_cuts(f->site, "/files/p.zip", 2 * 1024 * 1024, 0);
    start(f, NULL, "/dump");
    while (site_count(f->site, "/files/p.zip") < 2)
        transfers_turn(f->client->loop);
    baseline_free(f->baseline);
    n = site_count(f->site, "/files/p.zip");
    site_cuts(f->site, "/files/p.zip", 1024 * 1024 * 1024, 1);

    run(f, NULL, "/dump");
    assert_baseline(f, "http://e.org/one one;",
                    "@2026-01-01T00:00:00.000000Z+0");
    assert_non_null(
        site_header(f->site, "/files/p.zip", (unsigned)n, "If-Range"));
    assert_int_equal(site_answered(f->site, "/files/p.zip", (unsigned)n), 206);
    assert_scratch_empty(f);
}

TEST(a_dump_may_be_freed_in_the_middle)
{
    struct fixture *f = *state;

    put_dump(f, MANIFEST "<url><loc>http://e.org/two</loc>"
                         "<rs:md path=\"/2\"/></url>"
                         "<url><loc>http://e.org/one</loc>"
                         "<rs:md path=\"/1\"/></url></urlset>");
    f->frees_at = 1;
    run(f, NULL, "/dump");
    assert_int_equal(f->n, 1);
}

TEST(a_scratch_directory_that_is_not_there_is_told)
{
    struct fixture *f = *state;
    char path[256];

    memcpy(path, f->scratch.path, sizeof(path));
    strcpy(f->scratch.path, "/no/such/dir");
    put_dump(f, MANIFEST "</urlset>");
    run(f, "/list", "/dump");
    memcpy(f->scratch.path, path, sizeof(path));
    assert_fails(f, STATUS_IO, "cannot make /no/such/dir: No such file");
}

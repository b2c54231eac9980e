/* A bank in a bundle: its accounts and notices change together. It opens accounts, transfers money, and prints all. */
#include <ferrite.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, ferrite_error());
    return 1;
}

static const uint8_t *raw(const char *text)
{
    return (const uint8_t *)text;
}

/* The transfer that a plan makes, completely or not at all. */
struct transfer {
    const ferrite_bundle *bank;
    const char *from, *to;
    long amount;
};

/* The amount of the account; 0 if the account does not exist. */
static long balance(const ferrite_bundle *bank, const char *account)
{
    ferrite_bytes found;
    long has = 0;

    if (ferrite_bundle_map_get(bank, "accounts", raw(account), strlen(account), &found) == FERRITE_OK) {
        char text[24] = "";
        memcpy(text, found.data, found.len < 23 ? found.len : 23);
        has = atol(text);
        ferrite_bytes_free(&found);
    }
    return has;
}

static int set(ferrite_change *change, const char *account, long has)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%ld", has);

    return ferrite_change_put(change, "accounts", raw(account), strlen(account), raw(text), (size_t)len);
}

/* The bank does not change between the reads of this plan and its commit. */
static int move(ferrite_change *change, void *context)
{
    const struct transfer *it = context;
    char notice[200];
    int len = snprintf(notice, sizeof notice, "%ld from %s to %s", it->amount, it->from, it->to);
    long has = balance(it->bank, it->from);

    if (it->amount <= 0 || has < it->amount || strcmp(it->from, it->to) == 0 || len >= (int)sizeof notice)
        return 1; /* cancels the change */
    return set(change, it->from, has - it->amount) || set(change, it->to, balance(it->bank, it->to) + it->amount) ||
           ferrite_change_push(change, "notices", FERRITE_BACK, raw(notice), (size_t)len);
}

static int open_account(const ferrite_bundle *bank, const char *account, long has)
{
    ferrite_change *change;
    int status;

    if ((status = ferrite_change_new(&change)) != FERRITE_OK)
        return status;
    if ((status = set(change, account, has)) == FERRITE_OK)
        status = ferrite_change_commit(change, bank);
    ferrite_change_free(change);
    return status;
}

static int tell(const ferrite_bundle *bank)
{
    ferrite_bytes key = {0}, value, notice;
    uint64_t number = 0;

    for (;;) {
        ferrite_bytes next;
        int status = ferrite_bundle_map_next(bank, "accounts", key.data, key.len, &next, &value);
        ferrite_bytes_free(&key);
        if (status != FERRITE_OK)
            break;
        printf("%.*s has %.*s\n", (int)next.len, (char *)next.data, (int)value.len, (char *)value.data);
        ferrite_bytes_free(&value);
        key = next;
    }
    while (ferrite_bundle_queue_get(bank, "notices", number++, &notice) == FERRITE_OK) {
        printf("%.*s\n", (int)notice.len, (char *)notice.data);
        ferrite_bytes_free(&notice);
    }
    return 0;
}

static int work(const ferrite_bundle *bank, int count, char **words)
{
    struct transfer it = {bank, count > 0 ? words[0] : "", count > 1 ? words[1] : "", count > 2 ? atol(words[2]) : 0};

    if (count == 2 && open_account(bank, words[0], atol(words[1])))
        return failed("opening an account");
    if (count == 3) {
        int status = ferrite_bundle_change(bank, move, &it);
        if (status == FERRITE_CANCELLED)
            printf("%s has not so much\n", it.from);
        else if (status)
            return failed("moving");
    }
    return tell(bank);
}

int main(int argc, char **argv)
{
    ferrite_store *store;
    ferrite_bundle *bank;
    int status;

    if (argc < 2 || argc > 5) {
        fprintf(stderr, "usage: bank STORE [ACCOUNT AMOUNT | FROM TO AMOUNT]\n");
        return 2;
    }
    if (ferrite_store_open(argv[1], &store) != FERRITE_OK && ferrite_store_create(argv[1], 16 << 20, &store) != FERRITE_OK)
        return failed(argv[1]);
    if (ferrite_bundle_open(store, "bank", NULL, &bank))
        return failed("opening the bank");
    status = work(bank, argc - 2, argv + 2);
    ferrite_bundle_close(bank);
    return ferrite_store_close(store) ? failed("closing") : status;
}

/** How MySQL and MariaDB spell what the tables are made of. */
import { KEY_LENGTH_MAX, NAME_LENGTH_MAX } from "../../core/name.ts";

export const ID = "char(36) character set ascii collate ascii_bin";
export const NAME = `varchar(${NAME_LENGTH_MAX})`;
export const KEY = `varchar(${KEY_LENGTH_MAX})`;
export const WORKER = "varchar(255)";
export const WORD = "varchar(16)";
export const HASH = "char(64) character set ascii collate ascii_bin";

export const refuse = (words: string): string =>
  `signal sqlstate '45000' set message_text = 'holdfast: ${words}';`;

export const trigger = (name: string, moment: string, table: string, body: string): string => `
drop trigger if exists holdfast_${name};
create trigger holdfast_${name} ${moment} on holdfast_${table} for each row
begin
  ${body}
end;
`;
